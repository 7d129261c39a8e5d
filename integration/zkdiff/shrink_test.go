package zkdiff

import "slices"

// shrink returns a script as short as it finds that still fails, given one that does. fails must return the part of a
// script up to where it fails, or nil.
func shrink(script Script, fails func(Script) Script) Script {
	script = shortest(script, fails)
	for {
		before := len(script)
		script = without(script, fails)
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
