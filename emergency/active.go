package emergency

import (
	"time"

	"github.com/lockkeeper/lockkeeper/override"
)

// A Source is where an override was said.
type Source string

// The sources of overrides.
const (
	File      Source = "file"
	ZooKeeper Source = "zookeeper"
)

// An Active is an override in force.
type Active struct {
	override.Override
	Source Source

	// PostedBy is what ZooKeeper knows of who put it there, "digest:ana", and
	// PostedAt when, by the server's clock. Empty for those of a file.
	PostedBy string
	PostedAt time.Time

	// Since is when this process has heard of it first.
	Since time.Time
}

// same reports whether two are the same word, said at the same place.
func (a Active) same(b Active) bool {
	return a.Source == b.Source && a.PostedBy == b.PostedBy && a.PostedAt.Equal(b.PostedAt) && a.Equal(b.Override)
}

// words are what a log says of an override.
func (a Active) words() []any {
	words := []any{
		"override", a.ID, "kind", string(a.Kind), "match", a.Match.String(), "by", a.By, "reason", a.Reason,
		"until", a.Until.Format(time.RFC3339), "source", string(a.Source),
	}
	if a.PostedBy != "" {
		words = append(words, "posted_by", a.PostedBy)
	}
	return words
}
