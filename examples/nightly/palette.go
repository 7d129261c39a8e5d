package nightly

// palette colours text, or leaves it alone.
type palette struct{ on bool }

const (
	bold    = "1"
	dim     = "2"
	red     = "31"
	green   = "32"
	yellow  = "33"
	magenta = "35"
	cyan    = "36"
)

func (p palette) paint(style, text string) string {
	if !p.on || style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// look is how a kind of step is shown.
type look struct{ sign, style string }

func (k kind) look() look {
	switch k {
	case waiting:
		return look{"…", yellow}
	case holding, running:
		return look{"●", green}
	case preempted:
		return look{"!", red}
	case cleaning, cleaned:
		return look{"↺", magenta}
	case done, answers:
		return look{"✓", green}
	case handedOver:
		return look{"→", cyan}
	case stopped:
		return look{"■", cyan}
	case frozen, overridden, thawed:
		return look{"⚑", yellow}
	case skipped, left:
		return look{"-", dim}
	default:
		return look{"✗", red}
	}
}
