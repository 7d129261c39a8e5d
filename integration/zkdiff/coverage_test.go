package zkdiff

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// coverage counts what a run has met.
type coverage map[string]int

var (
	replyPattern  = regexp.MustCompile(`^reply (\S+) .*?(err=-?\d+)`)
	eventPattern  = regexp.MustCompile(`^event .*(type=-?\d+)`)
	resultPattern = regexp.MustCompile(`(?m)^    (\S+) .*?err=-?\d+(?: (code=-?\d+))?`)
)

// count takes in everything that was heard after a step.
func (c coverage) count(o outcome) {
	for _, lines := range o.heard {
		for _, line := range lines {
			if m := replyPattern.FindStringSubmatch(line); m != nil {
				c[m[1]+" "+m[2]]++
				for _, sub := range resultPattern.FindAllStringSubmatch(line, -1) {
					c[m[1]+"/"+sub[1]+" "+sub[2]]++
				}
			} else if m := eventPattern.FindStringSubmatch(line); m != nil {
				c["event "+m[1]]++
			} else if !strings.HasPrefix(line, "pong") {
				kind, _, _ := strings.Cut(line, " ")
				c[kind]++
			}
		}
	}
}

func (c coverage) String() string {
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&text, "%8d %s\n", c[key], key)
	}
	return text.String()
}
