package priority

import (
	"slices"
	"time"
)

// A Forecast is what becomes of a waiter if no one acts on their own accord: no
// holder leaves before it is made to, and no other request comes.
type Forecast struct {
	// Asks are the preemptions that it will send, in order.
	Asks []Foreseen

	// End is how it ends: Grant, TakeOver, GiveUp or Refuse. Wait: the waiter
	// is not first, and that depends on others.
	End Action

	// After is when it ends, from now on.
	After time.Duration
}

// Foreseen is an Ask that will be sent some time from now on.
type Foreseen struct {
	Ask
	After time.Duration
}

// Foresee judges f, and again each time that the verdict says, until it comes
// to an end: what Judge does when holders do not move.
func Foresee(f Facts) Forecast {
	var forecast Forecast
	f.Holders = slices.Clone(f.Holders)
	for {
		v := Judge(f)
		for _, ask := range v.Asks {
			forecast.Asks = append(forecast.Asks, Foreseen{ask, forecast.After})
			h := &f.Holders[ask.Holder]
			h.Asked = slices.Concat(h.Asked, []Asked{{Reason: ask.Reason}})
		}
		if v.Action != Preempt && v.Action != Wait || v.After == Never {
			forecast.End = v.Action
			return forecast
		}
		forecast.After += v.After
		pass(f.Holders, v.After)
	}
}

// pass lets time pass for the holders.
func pass(holders []Holder, d time.Duration) {
	for i := range holders {
		h := &holders[i]
		h.Remaining = h.Later(d)
		h.Asked = slices.Clone(h.Asked)
		for j := range h.Asked {
			h.Asked[j].Ago += d
		}
	}
}
