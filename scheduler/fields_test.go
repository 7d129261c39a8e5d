package scheduler

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// randomFields writes a spec of six fields.
func randomFields(r *rand.Rand) string {
	fields := make([]string, len(cronFields))
	for i, f := range cronFields {
		number := func() int { return f.low + r.IntN(min(f.high, 28)-f.low+1) }
		switch a, b := number(), number(); r.IntN(6) {
		case 0:
			fields[i] = "*"
		case 1:
			fields[i] = fmt.Sprintf("*/%d", 1+r.IntN(min(f.high-f.low, 30)))
		case 2:
			fields[i] = fmt.Sprintf("%d-%d", min(a, b), max(a, b))
		case 3:
			fields[i] = fmt.Sprintf("%d,%d", a, b)
		case 4:
			fields[i] = fmt.Sprintf("%d-%d/%d", min(a, b), f.high, 1+r.IntN(5))
		default:
			fields[i] = fmt.Sprint(a)
		}
	}
	return strings.Join(fields, " ")
}

// The library can evaluate its fields itself, only slowly.
func TestFieldsAreDueWhenTheLibrarySays(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		spec := randomFields(r)
		fields, err := splitFields(spec, "")
		require.NoError(t, err, spec)
		eval, err := parseCron(strings.Join(fields, " "))
		require.NoError(t, err, spec)
		at := time.Unix(r.Int64N(100*366*day)-50*366*day, 0).UTC()
		for range 15 {
			want := eval.Next(at)
			got, ok := eval.next(at.Unix() + 1)
			if want.IsZero() {
				break // it looks at five years only
			}
			if !ok || got != want.Unix() {
				t.Fatalf("%s after %s: want %s, got %s", spec, at, want, time.Unix(got, 0).UTC())
			}
			at = want
		}
	}
}
