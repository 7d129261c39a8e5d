package zkdiff

import (
	"slices"
)

// shrink returns a script as short and plain as it finds that still fails, given one that does. fails must return the
// part of a script up to where it fails, or nil.
func shrink(script Script, fails func(Script) Script) Script {
	script = shortest(script, fails)
	for {
		before := len(script)
		script = without(script, fails)
		script = plainer(script, fails)
		if len(script) == before {
			return script
		}
	}
}

// shortest finds an end of the script that fails by itself: what led to it is mostly near.
func shortest(script Script, fails func(Script) Script) Script {
	for n := 8; n < len(script); n *= 4 {
		if failed := fails(script[len(script)-n:]); failed != nil {
			return failed
		}
	}
	return script
}

// without leaves out steps, many at a time first.
func without(script Script, fails func(Script) Script) Script {
	for chunk := (len(script) + 1) / 2; chunk > 0; chunk /= 2 {
		for to := len(script) - 1; to > 0; { // the last step is the one that fails
			from := max(0, to-chunk)
			if failed := fails(slices.Concat(script[:from], script[to:])); failed != nil {
				script = failed
			}
			to = min(from, len(script)-1)
		}
	}
	return script
}

// plainer makes single steps simpler.
func plainer(script Script, fails func(Script) Script) Script {
	for i := 0; i < len(script); {
		failed := plainerAt(script, i, fails)
		if failed == nil {
			i++
			continue
		}
		script = failed
	}
	return script
}

func plainerAt(script Script, i int, fails func(Script) Script) Script {
	for _, simpler := range simplifications(script[i]) {
		candidate := slices.Clone(script)
		candidate[i] = simpler
		if failed := fails(candidate); failed != nil {
			return failed
		}
	}
	return nil
}

// simplifications are steps that say less, each in one respect.
func simplifications(s Step) []Step {
	var simpler []Step
	try := func(worth bool, change func(*Step)) {
		if worth {
			changed := s
			change(&changed)
			simpler = append(simpler, changed)
		}
	}
	for i := range s.Subs {
		try(true, func(c *Step) { c.Subs = slices.Concat(s.Subs[:i], s.Subs[i+1:]) })
	}
	try(s.On != 0, func(c *Step) { c.On = 0 })
	try(s.Watch, func(c *Step) { c.Watch = false })
	try(s.Data != nil, func(c *Step) { c.Data = nil })
	try(s.Tail != 0, func(c *Step) { c.Tail = 0 })
	try(s.Cut != 0, func(c *Step) { c.Cut = 0 })
	try(s.Version != -1 && s.Version != 0, func(c *Step) { c.Version = -1 })
	try(s.Flags != 0 && s.Do != CreateTTL && s.Do != CreateContainer, func(c *Step) { c.Flags = 0 })
	try(s.ACL != nil && !slices.Equal(s.ACL, everybody), func(c *Step) { c.ACL = everybody })
	for i, list := range s.Paths {
		for j := range list {
			try(true, func(c *Step) {
				c.Paths = slices.Clone(s.Paths)
				c.Paths[i] = slices.Concat(list[:j], list[j+1:])
			})
		}
	}
	return simpler
}
