package main

import (
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
)

// overrideLevel is a priority as overrides have it: also emergency.
type overrideLevel struct {
	is    level
	given bool
}

func (v *overrideLevel) Set(s string) error {
	v.given = true
	if s == "emergency" {
		v.is = level{is: priority.Emergency}
		return nil
	}
	if err := v.is.Set(s); err != nil {
		return err
	}
	if v.is.bad != "" {
		v.is.bad += ", or emergency"
	}
	return nil
}

func (v *overrideLevel) String() string  { return "" }
func (v *overrideLevel) Type() string    { return "level" }
func (v *overrideLevel) problem() string { return v.is.bad }

// level returns the priority, nil when the flag is left out.
func (v *overrideLevel) level() *priority.Level {
	if !v.given || v.is.bad != "" {
		return nil
	}
	return &v.is.is
}

// labels is the value of a flag that may be given several times.
type labels struct {
	is  map[string]string
	bad string
}

func (v *labels) Set(s string) error {
	name, value, found := strings.Cut(s, "=")
	err := override.CheckLabel(name, value)
	switch {
	case !found:
		v.bad = fmt.Sprintf("%q has no value; write name=value, for example team=orders", s)
	case err != nil:
		v.bad = err.Error()
	case v.is == nil:
		v.is = map[string]string{name: value}
	default:
		v.is[name] = value
	}
	return nil
}

func (v *labels) String() string  { return "" }
func (v *labels) Type() string    { return "label" }
func (v *labels) problem() string { return v.bad }
func (v *labels) forget()         { *v = labels{} }
