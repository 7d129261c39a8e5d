package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A field of a spec, and the values it takes.
type field struct {
	name      string
	low, high int
	noun      string   // of one of its values
	names     []string // of the values, from low on; none: numbers alone
}

var cronFields = [...]field{
	{name: "second", low: 0, high: 59, noun: "number"},
	{name: "minute", low: 0, high: 59, noun: "number"},
	{name: "hour", low: 0, high: 23, noun: "number"},
	{name: dayOfMonth, low: 1, high: 31, noun: "number"},
	{name: "month", low: 1, high: 12, noun: "month", names: []string{
		"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
	}},
	weekdays,
}

var weekdays = field{
	name: dayOfWeek, low: 0, high: 7, noun: "day", names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"},
}

const (
	dayOfMonth = "day of month"
	dayOfWeek  = "day of week"
)

// values says what may be written in a field.
func (f field) values() string {
	text := fmt.Sprintf("%d to %d", f.low, f.high)
	if len(f.names) > 0 {
		text += fmt.Sprintf(" or %s to %s", f.names[0], f.names[len(f.names)-1])
	}
	return text
}

// errorf names the field.
func (f field) errorf(format string, args ...any) error {
	return fmt.Errorf(f.name+": "+format, args...)
}

// checkItem checks an item of the list in a field: a *, ?, value or range, with
// or without a step.
func checkItem(item string, f field) error {
	if item == "" {
		return f.errorf("an item of the list is empty; remove the comma that is too much")
	}
	if err := checkForeign(item, f); err != nil {
		return err
	}
	base, step, stepped := strings.Cut(item, "/")
	if err := checkBase(base, f); err != nil {
		return err
	}
	if !stepped {
		return nil
	}
	_, err := checkStep(step, f)
	return err
}

func checkBase(base string, f field) error {
	if base == "*" || base == "?" {
		return nil
	}
	if isStar(base) {
		return f.errorf("%q is not a range; write *, or two numbers such as %d-%d", base, f.low, f.high)
	}
	from, to, ranged := strings.Cut(base, "-")
	if ranged && from == "" {
		return f.errorf("%q is neither a %s nor a range; write %s, or two such as %d-%d",
			base, f.noun, f.values(), f.low, f.high)
	}
	low, err := number(from, f)
	if err != nil || !ranged {
		return err
	}
	high, err := number(to, f)
	if err != nil {
		return err
	}
	last := f.high
	if f.name == dayOfWeek {
		if high == 0 && low > 0 && strings.EqualFold(to, "sun") && from != "7" {
			return nil // a week that ends with its Sunday
		}
		last = 6
	}
	switch {
	case low <= high:
		return nil
	case low > last: // a range that begins with Sunday
		return f.errorf("%q goes backwards; write %s", base, span(f.low, high))
	}
	return f.errorf("%q goes backwards; write %s,%s", base, span(low, last), span(f.low, high))
}

func span(low, high int) string {
	if low == high {
		return strconv.Itoa(low)
	}
	return fmt.Sprintf("%d-%d", low, high)
}

// number reads a value of a field. A sign is refused: robfig/cron takes +5 as 5,
// where */5 may be meant.
func number(text string, f field) (int, error) {
	if i := slices.IndexFunc(f.names, func(name string) bool { return strings.EqualFold(name, text) }); i >= 0 {
		return f.low + i, nil
	}
	if digits, signed := strings.CutPrefix(text, "+"); signed && isDigits(digits) {
		return 0, f.errorf("%q has a sign; write %s, or */%s for steps of %s", text, digits, digits, digits)
	}
	if !isDigits(text) {
		return 0, f.errorf("%q is not a %s; write %s", text, f.noun, f.values())
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.low || n > f.high { // an error: far too long
		return 0, f.errorf("%s is not between %d and %d; write %s", text, f.low, f.high, f.values())
	}
	return n, nil
}

func isDigits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

func checkStep(step string, f field) (int, error) {
	n, err := strconv.Atoi(step)
	if err != nil || !isDigits(step) || n < 1 {
		return 0, f.errorf("the step %q is not a positive number; write 1 to %d", step, f.high-f.low)
	}
	if n > f.high-f.low {
		return 0,
			f.errorf("the step %d is longer than the range from %d to %d; write 1 to %d", n, f.low, f.high, f.high-f.low)
	}
	return n, nil
}

// checkForeign refuses what other programs have in their specs and this one has
// not, and says how to do it here.
func checkForeign(item string, f field) error {
	upper := strings.ToUpper(item)
	day, isLast := strings.CutSuffix(upper, "L")
	switch {
	case f.name == dayOfMonth && strings.HasSuffix(upper, "W"):
		return f.errorf("%q, the nearest working day as in Quartz, is not supported; write the days that it can be, "+
			"and let the job end on the others", item)
	case f.name == dayOfMonth && (upper == "L" || strings.HasPrefix(upper, "L-")):
		return f.errorf("%q, the last day of the month as in Quartz, is not supported; "+
			"write 28-31 and let the job end unless tomorrow is the 1st, or write 1 for the day after", item)
	case f.name == dayOfWeek && upper == "L":
		return f.errorf("%q, the last day of the week as in Quartz, is not supported; write sat", item)
	case f.name == dayOfWeek && (isLast && isWeekday(day) || strings.Contains(item, "#")):
		return f.errorf("%q, a weekday in one week of the month as in Quartz, is not supported; "+
			"write the name of the day and let the job end unless the day of month fits (8 to 14 in the second week)", item)
	case strings.Contains(item, "~"):
		low, high, _ := strings.Cut(item, "~")
		if isDigits(low) && isDigits(high) {
			return f.errorf(
				"%q, a random value, is not supported; write H(%s-%s), a value that follows from the name of the job",
				item, low, high)
		}
		return f.errorf("%q, a random value, is not supported; write H, a value that follows from the name of the job", item)
	}
	return nil
}

func isWeekday(text string) bool {
	_, err := number(text, weekdays)
	return err == nil
}

var descriptors = []string{"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"}

// checkDescriptor checks a word that stands for fields.
func checkDescriptor(word string) error {
	lower := strings.ToLower(word)
	every, isEvery := strings.CutPrefix(lower, "@every")
	switch {
	case slices.Contains(descriptors, word):
		return nil
	case slices.Contains(descriptors, lower):
		return fmt.Errorf("%q is not known; write %s", word, lower)
	case lower == "@reboot":
		return errors.New("a tick belongs to the whole cluster, and no machine's start is one; " +
			"write manual here, and let systemd start \"lockkeeper jobs run\" or \"lockkeeper exec\" at boot")
	case isEvery:
		return fmt.Errorf("%q is not known; write @every %s", word, strings.TrimSpace(every))
	}
	return fmt.Errorf(
		"%q is not known; write five cron fields, @every 5m, @hourly, @daily, @weekly, @monthly, @yearly or manual", word)
}
