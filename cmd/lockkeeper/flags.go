package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/priority"
)

// The values of flags here never refuse what they are given: they keep what is
// wrong with it, so that all of it can be said at once. See checkValues.

// duration is the value of a flag that may be left out.
type duration struct {
	d     time.Duration
	given bool
	bad   string

	// positive is an example for a flag that has to be longer than 0; "" for
	// one that 0 means something to.
	positive string

	// term: priority.Terms says what is wrong with one that is negative.
	term bool
}

func (v *duration) Set(s string) error {
	d, err := time.ParseDuration(s)
	v.d, v.given, v.bad = d, true, ""
	switch _, number := strconv.ParseFloat(s, 64); {
	case err == nil && d < 0 && v.term:
	case err == nil && d <= 0 && v.positive != "":
		v.bad = fmt.Sprintf("%q must be positive; write for example %s, or leave it out", s, v.positive)
	case err == nil:
	case number == nil:
		v.bad = fmt.Sprintf("%q has no unit; write for example %ss", s, s)
	default:
		v.bad = fmt.Sprintf("%q is not a duration; write it like 30s, 5m or 1h30m", s)
	}
	return nil
}

func (v *duration) String() string  { return "" }
func (v *duration) Type() string    { return "duration" }
func (v *duration) problem() string { return v.bad }

// or returns the duration, or what holds without the flag.
func (v *duration) or(without time.Duration) time.Duration {
	if v.given && v.bad == "" {
		return v.d
	}
	return without
}

// limit returns the duration; nil when the flag is left out.
func (v *duration) limit() *time.Duration {
	if v.given && v.bad == "" {
		return &v.d
	}
	return nil
}

// level is a priority.
type level struct {
	is  priority.Level
	bad string
}

func (v *level) Set(s string) error {
	*v = level{}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		v.bad = fmt.Sprintf("%s is out of range; write 0 to %d", s, priority.Emergency-1)
	case err != nil:
		v.bad = fmt.Sprintf("%q is not a whole number; write 0 to %d", s, priority.Emergency-1)
	default:
		if v.is, err = priority.LevelOf(n); err != nil {
			v.is, v.bad = priority.Default, err.Error()
		}
	}
	return nil
}

func (v *level) String() string  { return strconv.Itoa(int(v.is)) }
func (v *level) Type() string    { return "level" }
func (v *level) problem() string { return v.bad }

// mode is exclusive or shared.
type mode struct {
	is  priority.Mode
	bad string
}

func (v *mode) Set(s string) error {
	*v = mode{}
	is, err := priority.ParseMode(s)
	if refused, ok := errors.AsType[*priority.RequestError](err); ok {
		v.bad = refused.Reason
	}
	v.is = is
	return nil
}

func (v *mode) String() string  { return v.is.String() }
func (v *mode) Type() string    { return "mode" }
func (v *mode) problem() string { return v.bad }

// scopes is the value of a flag that may be given several times.
type scopes []string

func (v *scopes) Set(s string) error {
	*v = append(*v, s)
	return nil
}

func (v *scopes) String() string { return strings.Join(*v, ", ") }
func (v *scopes) Type() string   { return "scope" }
func (v *scopes) forget()        { *v = nil }

// choice is one of several words.
type choice struct {
	is  string
	of  []string
	bad string
}

func (v *choice) Set(s string) error {
	v.is, v.bad = s, ""
	if !slices.Contains(v.of, s) {
		v.bad = fmt.Sprintf("%q is unknown; write %s", s, v.list())
	}
	return nil
}

func (v *choice) String() string  { return v.is }
func (v *choice) Type() string    { return "format" }
func (v *choice) problem() string { return v.bad }

func (v *choice) list() string {
	last := len(v.of) - 1
	return strings.Join(v.of[:last], ", ") + " or " + v.of[last]
}

// yes is a flag without a value.
type yes struct {
	is  bool
	bad string
}

func (v *yes) Set(s string) error {
	is, err := strconv.ParseBool(s)
	*v = yes{is: is}
	if err != nil {
		v.bad = fmt.Sprintf("%q is neither true nor false", s)
	}
	return nil
}

func (v *yes) String() string   { return strconv.FormatBool(v.is) }
func (v *yes) Type() string     { return "bool" }
func (v *yes) IsBoolFlag() bool { return true }
func (v *yes) problem() string  { return v.bad }
