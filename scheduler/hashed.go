package scheduler

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// hashedWord stands for a number that follows from the name of the job: jobs
// with one spec are then due at different times, each always at the same one.
const hashedWord = "H"

var errNameless = errors.New("the number H follows from the name of a job, and there is none here; write a number")

func isHashed(item string) bool { return strings.HasPrefix(item, hashedWord) }

// numbersOf returns what one of these means for a job, as Jenkins has them:
//
//	H         one number of the field; a day of month from 1 to 28, which all months have
//	H(a-b)    one number of the range
//	H/n       each n-th number, from one of the first n on
//	H(a-b)/n  the same within the range
func numbersOf(item string, f field, job string) (string, error) {
	if job == "" {
		return "", fmt.Errorf("%s: %w", f.name, errNameless)
	}
	base, step, stepped := strings.Cut(item, "/")
	low, high, err := hashedRange(base, f)
	if err != nil {
		return "", err
	}
	if !stepped {
		return strconv.Itoa(low + int(stableNumber(uint64(high-low+1), job, f.name))), nil
	}
	n, err := checkStep(step, f)
	if err != nil {
		return "", err
	}
	if n > high-low+1 {
		return "", fmt.Errorf("%s: the step %d is longer than the range from %d to %d", f.name, n, low, high)
	}
	first := low + int(stableNumber(uint64(n), job, f.name))
	return fmt.Sprintf("%d-%d/%d", first, high, n), nil
}

func hashedRange(base string, f field) (low, high int, err error) {
	inside, ranged := strings.CutPrefix(base, hashedWord+"(")
	inside, closed := strings.CutSuffix(inside, ")")
	switch {
	case base == hashedWord && f.name == dayOfMonth:
		return f.low, 28, nil
	case base == hashedWord && f.name == dayOfWeek:
		return f.low, 6, nil
	case base == hashedWord:
		return f.low, f.high, nil
	}
	from, to, both := strings.Cut(inside, "-")
	low, errLow := strconv.Atoi(from)
	high, errHigh := strconv.Atoi(to)
	switch {
	case !ranged || !closed || !both || errLow != nil || errHigh != nil || !isDigits(from) || !isDigits(to):
		return 0, 0, fmt.Errorf("%s: %q cannot be read; write H, H/n, or with a range H(%d-%d) or H(%d-%d)/n",
			f.name, base, f.low, f.high, f.low, f.high)
	case low < f.low || high > f.high || low > high:
		return 0, 0, fmt.Errorf("%s: %q is not a range between %d and %d", f.name, base, f.low, f.high)
	}
	return low, high, nil
}
