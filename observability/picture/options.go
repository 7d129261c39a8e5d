package picture

import (
	"cmp"
	"net/url"
	"slices"
	"time"
)

// Options say how a picture is drawn. The zero value is good for one that is
// embedded in a page.
type Options struct {
	// Width in pixels. Defaults to 960; less than 320 is 320. A graph may be
	// narrower, and heat maps and timelines are exactly that wide.
	Width int

	// Now is until when that which goes on is drawn, at most until the end of a
	// timeline. Defaults to its end.
	Now time.Time

	// Standalone adds the stylesheet, for a picture that is a file of its own.
	// One in a page needs Stylesheet there.
	Standalone bool

	// Untitled leaves the heading out of the drawing, for a page that has one of its
	// own. Screen readers still get it.
	Untitled bool

	// Variant tells two drawings of the same in one page apart, as a wide and a
	// narrow one. Defaults to "": there is only one.
	Variant string

	// Links returns where the request with this ID (in a heat map: the lock of
	// this scope) leads to, "" for nowhere. Only relative addresses and http and
	// https are used. Defaults to none.
	Links func(id string) string

	// Rows is how many requests of a timeline, requests of a graph or locks of a
	// heat map are drawn; how many there are beside is said. Defaults to 100, 60
	// and 40.
	Rows int
}

const (
	usualWidth = 960
	leastWidth = 320
)

func (o Options) width() float64 {
	return float64(max(cmp.Or(max(o.Width, 0), usualWidth), leastWidth))
}

// heading is how much room the heading and what is below it take.
func (o Options) heading() float64 {
	if o.Untitled {
		return 0
	}
	return 24
}

func (o Options) rows(usual int) int { return cmp.Or(max(o.Rows, 0), usual) }

// link returns the address for a request or lock, "" for none that may be used.
func (o Options) link(id string) string {
	if o.Links == nil {
		return ""
	}
	address := o.Links(id)
	u, err := url.Parse(address)
	if err != nil || !slices.Contains([]string{"", "http", "https"}, u.Scheme) {
		return ""
	}
	return address
}
