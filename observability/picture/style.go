package picture

import (
	"strconv"
	"strings"
)

// Stylesheet returns the rules for all pictures, light and dark as the reader's
// system is: for a page that pictures are embedded in. Standalone ones have it in
// them.
func Stylesheet() string {
	return colours(light) + "@media (prefers-color-scheme: dark) {\n" + colours(dark) + "}\n" + forms
}

// A palette names the colours of a picture. People with colour vision deficiency
// can distinguish them (after Okabe and Ito), and text has a contrast of at
// least 4.5 to its background.
type palette struct {
	background, text, muted, line, band string // band: of every second row
	hold, onHold                        string
	wait, waitBack                      string
	leave, leaveBack                    string
	ask, hand, alarm                    string
	heat                                [heatLevels]string
	heatText                            int // from which level on text on it has the colour of the background
}

var light = palette{
	background: "#ffffff", text: "#1f2328", muted: "#59636e", line: "#d1d9e0", band: "#f6f8fa",
	hold: "#0068a8", onHold: "#ffffff",
	wait: "#9a6700", waitBack: "#fff3c4",
	leave: "#8e3a6b", leaveBack: "#f0c3dc",
	ask: "#c4320a", hand: "#00694d", alarm: "#c4002b",
	heat:     [heatLevels]string{"#fde9c9", "#fbc98e", "#f4a259", "#dd7424", "#b04c0f", "#762a04"},
	heatText: 5,
}

var dark = palette{
	background: "#0d1117", text: "#e6edf3", muted: "#9da7b3", line: "#30363d", band: "#161b22",
	hold: "#58b4ec", onHold: "#06121c",
	wait: "#e3b341", waitBack: "#3a2d07",
	leave: "#e39bc4", leaveBack: "#57243f",
	ask: "#ff9466", hand: "#4ad6a7", alarm: "#ff7b8a",
	heat:     [heatLevels]string{"#3b2309", "#65390c", "#94540f", "#c87619", "#f0a04a", "#fbd39b"},
	heatText: 4,
}

func colours(p palette) string {
	pairs := []string{
		"BACKGROUND", p.background, "TEXT", p.text, "MUTED", p.muted, "LINE", p.line, "BAND", p.band,
		"ON_HOLD", p.onHold, "HOLD", p.hold, "WAIT_BACK", p.waitBack, "WAIT", p.wait, "LEAVE_BACK", p.leaveBack, "LEAVE",
		p.leave, "ASK", p.ask, "HAND", p.hand, "ALARM", p.alarm,
	}
	rules := strings.NewReplacer(pairs...).Replace(`.lk-bg { fill: BACKGROUND }
.lk-text { fill: TEXT }
.lk-muted { fill: MUTED }
.lk-line { stroke: LINE }
.lk-band { fill: BAND }
.lk-unknown { stroke: LINE }
.lk-holding { fill: HOLD; stroke: HOLD }
.lk-on-holding { fill: ON_HOLD }
.lk-back { fill: BACKGROUND }
.lk-waiting-back { fill: WAIT_BACK }
.lk-waiting-line { stroke: WAIT }
.lk-waiting { stroke: WAIT }
.lk-waiting-edge { fill: WAIT; stroke: WAIT }
.lk-leaving-back { fill: LEAVE_BACK }
.lk-leaving-line { stroke: LEAVE }
.lk-leaving { stroke: LEAVE }
.lk-leaving-edge { fill: LEAVE; stroke: LEAVE }
.lk-halo { stroke: BACKGROUND }
.lk-halo-text { fill: TEXT; stroke: BACKGROUND }
.lk-ask { stroke: ASK }
.lk-ask-fill { fill: ASK }
.lk-on-ask { fill: BACKGROUND }
.lk-hand { stroke: HAND }
.lk-hand-fill { fill: HAND }
.lk-hand-open { fill: BACKGROUND; stroke: HAND }
.lk-end { stroke: ALARM }
.lk-edge { stroke: MUTED }
.lk-edge-fill { fill: MUTED }
.lk-alarm { stroke: ALARM }
.lk-alarm-fill { fill: ALARM }
.lk-on-alarm { fill: BACKGROUND }
.lk-node { fill: BACKGROUND; stroke: MUTED }
.lk-node-holds { fill: BACKGROUND; stroke: HOLD }
.lk-node-waits { fill: BACKGROUND; stroke: WAIT }
`)
	var heat strings.Builder
	for i, colour := range p.heat {
		level, text := strconv.Itoa(i+1), p.text
		if i+1 >= p.heatText {
			text = p.background
		}
		heat.WriteString(
			".lk-heat-" + level + " { fill: " + colour + " }\n.lk-on-heat-" + level + " { fill: " + text + " }\n")
	}
	return rules + heat.String()
}

// forms are the rules that do not depend on the colours.
const forms = `.lk-picture { font-family: system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; font-size: 12px }
.lk-title { font-size: 15px; font-weight: 600 }
.lk-owner { font-weight: 600 }
.lk-small { font-size: 11px }
.lk-number { font-size: 10px; font-weight: 700; text-anchor: middle }
.lk-middle { text-anchor: middle }
.lk-right { text-anchor: end }
.lk-halo { fill: none; stroke-width: 4.5 }
.lk-halo-text { paint-order: stroke; stroke-width: 3; stroke-linejoin: round }
.lk-ask, .lk-hand, .lk-end, .lk-edge, .lk-alarm { fill: none; stroke-width: 1.6 }
.lk-hand { stroke-dasharray: 4 2.5 }
.lk-under { stroke-dasharray: 1.5 3; stroke-linecap: round }
.lk-take { stroke-width: 3 }
.lk-alarm { stroke-width: 2.6; stroke-dasharray: 8 3 }
.lk-node-holds { stroke-width: 2 }
.lk-node-waits { stroke-width: 1.4; stroke-dasharray: 5 3 }
.lk-node-alarm { stroke-width: 3; stroke-dasharray: none }
a .lk-owner { text-decoration: underline }
a:hover .lk-band, a:focus .lk-band { opacity: .6 }
`
