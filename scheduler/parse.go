package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
)

// A source is the text of a schedule and what it is read with.
type source struct {
	field string // of the job, as in the configuration
	spec  string
	zone  string // given beside the spec
	job   string // name, for H
	dst   jobs.DST
}

func (src source) read() (Schedule, error) {
	s, err := src.parse(strings.TrimSpace(src.spec), strings.TrimSpace(src.zone))
	if err != nil {
		return nil, &SpecError{Field: src.field, Spec: src.spec, Zone: src.zone, Reason: err.Error()}
	}
	return s, nil
}

func (src source) parse(spec, timezone string) (Schedule, error) {
	zone, rest, prefixed := cutZone(spec)
	switch {
	case prefixed && timezone != "":
		return nil, fmt.Errorf("the time zone is given twice, as %q in front and as %q beside it; drop one", zone, timezone)
	case !prefixed:
		zone = timezone
	}
	loc, err := location(zone, prefixed)
	if err != nil {
		return nil, err
	}
	text := rest
	if zone != "" {
		text += " " + zone
	}

	switch {
	case rest == "":
		return nil, errors.New("it is empty; write five cron fields, @every 5m, @daily or manual")
	case rest == "manual":
		return manual{}, nil
	case rest == "@every" || strings.HasPrefix(rest, "@every "):
		if prefixed {
			return nil, errors.New("@every goes by Unix time in every time zone; drop the zone")
		}
		return parseEvery(rest, src.job)
	case strings.HasPrefix(rest, "@"):
		if err := checkDescriptor(rest); err != nil {
			return nil, err
		}
		eval, err := parseCron(rest)
		if err != nil {
			return nil, err
		}
		return civil{eval: eval, loc: loc, elapsed: rest == "@hourly", dst: src.dst, text: text}, nil
	}
	fields, err := splitFields(rest, src.job)
	if err != nil {
		return nil, err
	}
	eval, err := parseCron(strings.Join(fields, " "))
	if err != nil {
		return nil, err
	}
	if eval.never() {
		return nil, errors.New("it is never due: no month has such a day")
	}
	return civil{eval: eval, loc: loc, elapsed: goesByElapsed(strings.Fields(rest)), dst: src.dst, text: text}, nil
}

// goesByElapsed reports whether the spec repeats within an hour or a day rather
// than naming times.
func goesByElapsed(fields []string) bool {
	n := len(fields)
	return hasStar(fields[n-5]) || hasStar(fields[n-4])
}

// cutZone splits a leading CRON_TZ=zone or TZ=zone off the spec.
func cutZone(spec string) (zone, rest string, ok bool) {
	for _, prefix := range []string{"CRON_TZ=", "TZ="} {
		if after, found := strings.CutPrefix(spec, prefix); found {
			end := strings.IndexAny(after, " \t\r\n")
			if end < 0 {
				return after, "", true
			}
			return after[:end], strings.TrimSpace(after[end:]), true
		}
	}
	return "", spec, false
}

func location(zone string, prefixed bool) (*time.Location, error) {
	switch {
	case zone == "" && prefixed:
		return nil, errors.New("the time zone in front is empty; write for example CRON_TZ=Europe/Berlin")
	case zone == "":
		return time.UTC, nil
	case strings.EqualFold(zone, "local"):
		return nil,
			errors.New("the time zone Local differs from machine to machine; write its name, for example Europe/Berlin")
	}
	loc, err := time.LoadLocation(zone)
	if err != nil {
		return nil, fmt.Errorf("unknown time zone %q; write a name such as Europe/Berlin", zone)
	}
	return loc, nil
}

func parseEvery(spec, job string) (Schedule, error) {
	length, phase, phased := strings.Cut(strings.TrimPrefix(spec, "@every"), "/")
	period, err := parseDuration(length)
	if err != nil {
		return nil, fmt.Errorf("%w; write for example @every 5m or @every 1h30m", err)
	}
	if err := checkPeriod(period); err != nil {
		return nil, err
	}
	s := interval{seconds: int64(period / time.Second), spec: spec}
	switch phase = strings.TrimSpace(phase); {
	case !phased:
	case phase == hashedWord && job == "":
		return nil, errNameless
	case phase == hashedWord:
		s.phase = int64(stableNumber(uint64(s.seconds), job, "phase"))
	default:
		offset, err := parseDuration(phase)
		switch {
		case err != nil:
			return nil, fmt.Errorf("the phase %w; write for example @every 1h/15m, or @every 1h/H", err)
		case offset < 0 || offset >= period:
			return nil, fmt.Errorf("the phase %s is not between 0s and the period %s; write @every %s/%s",
				offset, period, period, (offset%period+period)%period)
		case offset%time.Second != 0:
			return nil, fmt.Errorf("the phase %s is not of whole seconds; write %s", offset, offset.Round(time.Second))
		}
		s.phase = int64(offset / time.Second)
	}
	return s, nil
}

func parseDuration(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration", text)
	}
	return d, nil
}

// splitFields checks all items, so that errors name the field and what to write,
// puts numbers for H, and writes Sunday as 0, the only number that robfig/cron
// knows for it.
func splitFields(spec, job string) ([]string, error) {
	fields := strings.Fields(spec)
	switch n := len(fields); n {
	case 5, 6:
	case 7:
		return nil,
			fmt.Errorf("expected 5 or 6 fields, found 7: the year of Quartz (%s) is not supported; leave it out", fields[6])
	default:
		return nil,
			fmt.Errorf("expected 5 or 6 fields (second, if any; minute, hour, day of month, month, day of week), found %d", n)
	}
	kinds := cronFields[len(cronFields)-len(fields):]
	for i, text := range fields {
		items := strings.Split(text, ",")
		for k, item := range items {
			if isHashed(item) {
				numbers, err := numbersOf(item, kinds[i], job)
				if err != nil {
					return nil, err
				}
				items[k] = numbers
				continue
			}
			if err := checkItem(item, kinds[i]); err != nil {
				return nil, err
			}
		}
		fields[i] = strings.Join(items, ",")
	}
	last := len(fields) - 1
	fields[last] = rewriteSunday(fields[last])
	return fields, nil
}

func isStar(item string) bool { return strings.HasPrefix(item, "*") || strings.HasPrefix(item, "?") }

// hasStar reports whether a list has a *, a */n, or an H/n, which is a */n that
// begins elsewhere.
func hasStar(list string) bool {
	return slices.ContainsFunc(strings.Split(list, ","), func(item string) bool {
		return isStar(item) || strings.HasPrefix(item, hashedWord+"/")
	})
}

// rewriteSunday lists the days of a range that ends in a Sunday. The items have
// been checked.
func rewriteSunday(list string) string {
	items := strings.Split(list, ",")
	for i, item := range items {
		base, step, stepped := strings.Cut(item, "/")
		low, high, ranged := strings.Cut(base, "-")
		switch {
		case !ranged && low == "7":
			items[i] = "0"
			if stepped {
				items[i] += "/" + step
			}
		case ranged && (high == "7" || strings.EqualFold(high, "sun") && !isSunday(low)):
			first, _ := number(low, weekdays)
			by := 1
			if stepped {
				by, _ = strconv.Atoi(step)
			}
			var days []string
			for d := first; d <= 7; d += by {
				days = append(days, strconv.Itoa(d%7))
			}
			items[i] = strings.Join(days, ",")
		}
	}
	return strings.Join(items, ",")
}

func isSunday(day string) bool { return day == "0" || day == "7" || strings.EqualFold(day, "sun") }
