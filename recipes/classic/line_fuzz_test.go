package classic

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func FuzzLimit(f *testing.F) {
	for _, data := range []string{"", "\x00\x00\x00\x05", "5", " 5\n", "\xff\xff\xff\xff", "05", "5 "} {
		f.Add([]byte(data), 5)
	}
	f.Fuzz(func(t *testing.T, data []byte, limit int) {
		limit &= 0xffff
		for _, naming := range []Naming{NamingCurator, NamingKazoo} {
			m := &Semaphore{o: SemaphoreOptions{Naming: naming, Limit: limit}}
			n, ok := m.decodeLimit(m.encodeLimit(limit))
			require.True(t, ok)
			require.Equal(t, limit, n)
			if n, ok := m.decodeLimit(data); ok {
				require.GreaterOrEqual(t, n, 0)
				again, ok := m.decodeLimit(m.encodeLimit(n))
				require.True(t, ok)
				require.Equal(t, n, again)
			}
		}
	})
}

func FuzzTickets(f *testing.F) {
	for _, name := range []string{
		"_c_6f0c7f63-0d1d-4b1f-8a3e-f1e0a6a5d2aa-lock-0000000001", "6f0c7f630d1d4b1f8a3ef1e0a6a5d2aa__rlock__0000000001", "x__WRIT__2147483647",
		"lock-lock-0000000000", "a--000000012", "0000000012", "zookeeper", "",
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if ticket, ok := parseTicket(name, lockMarks); ok {
			require.Equal(t, name, name[:len(name)-len(ticket.mark.text)-len(ticket.number)]+ticket.mark.text+ticket.number)
			require.Contains(t, lockMarks, ticket.mark)
		}
	})
}

// Whatever the numbers, all who see the same nodes find the same order; and where the numbers were given out within half
// a round, it is that of the differences.
func FuzzOrder(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 2}, uint8(3))
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff, 0x80, 0, 0, 0, 0x80, 0, 0, 1}, uint8(1))
	f.Add([]byte{0, 0, 0, 0, 0x40, 0, 0, 0, 0x80, 0, 0, 0, 0xc0, 0, 0, 0}, uint8(0))
	f.Fuzz(func(t *testing.T, data []byte, turn uint8) {
		var tickets []string
		for i := 0; i+4 <= len(data) && i < 4*64; i += 4 {
			n := int32(uint32(data[i])<<24 | uint32(data[i+1])<<16 | uint32(data[i+2])<<8 | uint32(data[i+3]))
			tickets = append(tickets, fmt.Sprintf("_c_%032x-lock-%010d", i, n))
		}
		l := &line{marks: lockMarks}
		queue := l.order(tickets)
		require.Len(t, queue, len(tickets))
		if len(tickets) == 0 {
			return
		}
		k := int(turn) % len(tickets)
		tickets = slices.Concat(tickets[k:], tickets[:k])
		if turn&1 == 1 {
			slices.Reverse(tickets)
		}
		require.Equal(t, queue, l.order(tickets))
		numbers := make([]int32, len(queue))
		for i, q := range queue {
			numbers[i] = q.sequence
		}
		for _, from := range numbers {
			// All within half a round behind one of them: that one is the first.
			if !slices.ContainsFunc(numbers, func(n int32) bool { return uint32(n)-uint32(from) >= 1<<31 }) {
				require.Equal(t, from, numbers[0])
				for i := 1; i < len(numbers); i++ {
					require.LessOrEqual(t, numbers[i-1]-numbers[i], int32(0))
				}
			}
		}
	})
}
