package orders

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// A Record is one version of one order.
type Record struct {
	Order   int
	Version int // 1 at first; each change adds one
	Cents   int // what the order costs
}

// String returns the line that stands for r in a segment.
func (r Record) String() string {
	body := fmt.Sprintf("%06d v%d %d", r.Order, r.Version, r.Cents)
	return fmt.Sprintf("%s #%08x", body, crc32.ChecksumIEEE([]byte(body)))
}

func parseRecord(line string) (Record, error) {
	body, sum, _ := strings.Cut(line, " #")
	fields := strings.Fields(body)
	if len(fields) != 3 {
		return Record{}, fmt.Errorf("%q is no order", line)
	}
	var r Record
	var errs [3]error
	r.Order, errs[0] = strconv.Atoi(fields[0])
	r.Version, errs[1] = strconv.Atoi(strings.TrimPrefix(fields[1], "v"))
	r.Cents, errs[2] = strconv.Atoi(fields[2])
	if errors.Join(errs[:]...) != nil {
		return Record{}, fmt.Errorf("%q is no order", line)
	}
	if fmt.Sprintf("%08x", crc32.ChecksumIEEE([]byte(body))) != sum {
		return Record{}, fmt.Errorf("%q does not match its checksum", line)
	}
	return r, nil
}

// A segment is a file of orders.
type segment struct {
	generation int // that wrote it
	records    []Record
}

func (s segment) encode() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "generation %d\n", s.generation)
	for _, r := range s.records {
		b.WriteString(r.String())
		b.WriteByte('\n')
	}
	return b.Bytes()
}

func decodeSegment(data []byte) (segment, error) {
	var s segment
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Scan()
	if _, err := fmt.Sscanf(lines.Text(), "generation %d", &s.generation); err != nil {
		return segment{}, fmt.Errorf("it begins with %q and not with a generation", lines.Text())
	}
	for lines.Scan() {
		r, err := parseRecord(lines.Text())
		if err != nil {
			return segment{}, err
		}
		s.records = append(s.records, r)
	}
	return s, nil
}

// Latest returns the newest version of each order, in the order in which the
// orders first appear.
func Latest(records []Record) []Record {
	at := make(map[int]int, len(records))
	var latest []Record
	for _, r := range records {
		i, known := at[r.Order]
		switch {
		case !known:
			at[r.Order] = len(latest)
			latest = append(latest, r)
		case r.Version > latest[i].Version:
			latest[i] = r
		}
	}
	return latest
}
