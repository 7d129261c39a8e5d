package top

import (
	"fmt"
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/observability/live"
)

// A state is what a lock is in, the worst first.
type state int

const (
	circle state = iota
	damaged
	preempting
	delayed
	held
	free
)

func (s state) String() string {
	return [...]string{"cycle", "damaged", "preempting", "delayed", "held", "free"}[s]
}

func (s state) style() style {
	switch s {
	case circle, damaged:
		return alarm
	case preempting, delayed:
		return notice
	case free:
		return faint
	case held:
	}
	return usual
}

func (v View) stateOf(l *live.Lock) state {
	switch {
	case v.circled[l.Scope]:
		return circle
	case l.Damage != "":
		return damaged
	case isPreempting(l):
		return preempting
	case l.State == "delayed":
		return delayed
	case l.State == "held":
		return held
	}
	return free
}

// isPreempting reports whether a holder has been preempted.
func isPreempting(l *live.Lock) bool {
	return slices.ContainsFunc(l.Holders, func(h live.Holder) bool { return len(h.PreemptedBy) > 0 })
}

// heading is who looks, when, and whether ZooKeeper answers.
func (v View) heading() []phrase {
	phrases := []phrase{{"lockkeeper top", strong}}
	if v.seen == nil || v.seen.At.IsZero() {
		return append(phrases, phrase{"looking for locks", notice})
	}
	phrases = append(phrases, phrase{live.Clock(v.seen.At), usual})
	switch b := v.seen.Blind; {
	case b != nil:
		text := fmt.Sprintf("BLIND since %s, %s: %s", live.Short(b.Since, v.seen.At), v.age(b.Since), b.Reason)
		return append(phrases, phrase{text, alarm})
	case !v.seen.Complete:
		return append(phrases, phrase{"not all locks have been read yet", notice})
	}
	return append(phrases, phrase{"ZooKeeper answers", faint})
}

// totals are sums over all locks.
func (v View) totals() []phrase {
	if v.seen == nil {
		return nil
	}
	t := v.seen.Totals
	leaving := 0
	for i := range v.seen.Locks {
		if isPreempting(&v.seen.Locks[i]) {
			leaving++
		}
	}
	waiting := phrase{fmt.Sprintf("%d waiting", t.Waiters), usual}
	if t.OldestWait != nil {
		waiting.text += ", the oldest " + v.age(*t.OldestWait)
	}
	delays := phrase{}
	if t.Delayed > 0 {
		delays = phrase{fmt.Sprintf("%d delayed", t.Delayed), notice}
	}
	return []phrase{
		{words.Count(t.Locks, "lock"), usual},
		{fmt.Sprintf("%d held", t.Held), usual},
		waiting,
		v.some(leaving, fmt.Sprintf("%d preempting", leaving), notice),
		v.some(t.Circles, words.Count(t.Circles, "cycle"), alarm),
		delays,
	}
}

// narrow is how wide a terminal is that has no room for what there is none of.
const narrow = 60

// some is a phrase about how many there are.
func (v View) some(n int, words string, s style) phrase {
	switch {
	case n > 0:
		return phrase{words, s}
	case v.width > 0 && v.width < narrow:
		return phrase{}
	}
	return phrase{words, usual}
}

// age is how long ago something was, in seconds: what is finer would only flicker.
func (v View) age(t time.Time) string { return live.Human(v.seen.At.Sub(t).Truncate(time.Second)) }
