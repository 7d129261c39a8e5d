package priority

import (
	"fmt"
	"math"
)

// A Level says how important a request is: 0 is the lowest and the default,
// larger is more important.
type Level int32

const (
	// Default is the lowest level: what a request has that asks for none.
	Default Level = 0

	// Emergency is the highest level. It is reserved for operators' overrides:
	// nothing that a job may ask for outranks it or equals it.
	Emergency Level = math.MaxInt32
)

// Outranks reports whether l is more important than o: only then may a request
// at level l preempt a holder at level o, see BarOf. Equals do not
// outrank each other.
func (l Level) Outranks(o Level) bool { return l > o }

// LevelOf returns n as a level. What no job may ask for, see CheckJob, is an error,
// which says what to write instead.
func LevelOf(n int64) (Level, error) {
	switch {
	case n > int64(Emergency):
		return Default, fmt.Errorf("priority %d is above the highest; write a number from %d to %d", n, Default, Emergency-1)
	case n < int64(Default):
		return Default, fmt.Errorf("priority %d is below the lowest; write a number from %d (default, lowest) to %d",
			n, Default, Emergency-1)
	case n == int64(Emergency):
		return Default, Emergency.CheckJob()
	}
	return Level(n), nil
}

// CheckJob returns an error, which says what to write instead, unless a job or
// requirement may ask for l: from Default up to, not including, Emergency.
func (l Level) CheckJob() error {
	switch {
	case l < Default:
		_, err := LevelOf(int64(l))
		return err
	case l == Emergency:
		return fmt.Errorf("priority %d is the emergency level, reserved for operators' overrides; write %d or less, "+
			"and let an operator override in an emergency", l, Emergency-1)
	}
	return nil
}
