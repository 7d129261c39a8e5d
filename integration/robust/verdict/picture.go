package verdict

import (
	"fmt"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// String tells a violation in lines: what it is, and the holds that show it.
func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "VIOLATION (%s) of %q at %.4f\n  %s\n", v.Check, v.Scope, v.At.Seconds(), v.Text)
	for _, h := range v.Holds {
		fmt.Fprintf(&b, "  %s\n", h.Tale())
	}
	return b.String()
}

// Picture writes porcupine's picture of the holds that show the violation: a page
// of HTML.
func (v Violation) Picture(path string) error {
	_, info := porcupine.CheckOperationsVerbose(model(), operations(v.Holds), 30*time.Second)
	return porcupine.VisualizePath(model(), info, path)
}
