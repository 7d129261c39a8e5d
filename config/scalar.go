package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/lockkeeper/lockkeeper/internal/words"
)

// A scalar is a value of one word or text, with the environment put in.
type scalar struct {
	text     string
	tag      string
	expanded bool // came from the environment, at least in part
	written  string
}

func (s scalar) quoted() string {
	if s.expanded {
		return fmt.Sprintf("%s (from %s)", quote(s.text), quote(s.written))
	}
	return quote(s.text)
}

func (d *decoder) scalar(v value, instead string) (scalar, bool) {
	if !d.filled(v, instead) {
		return scalar{}, false
	}
	if v.node.Kind != yaml.ScalarNode {
		d.problem(v, describe(v.node)+" cannot stand here", instead)
		return scalar{}, false
	}
	switch v.node.Tag {
	case tagString, tagInt, tagBool, "!!float", "!!timestamp":
	default:
		d.problem(v, fmt.Sprintf("the tag %s means nothing here", quote(v.node.Tag)), "remove it")
		return scalar{}, false
	}
	text, what, hint := expand(v.node.Value, d.env)
	if what != "" {
		d.problem(v, what, hint)
		return scalar{}, false
	}
	return scalar{text: text, tag: v.node.Tag, expanded: text != v.node.Value, written: v.node.Value}, true
}

// text reads a text that is not empty. Numbers and the like are taken as they
// are written.
func (d *decoder) text(v value, instead string) (string, bool) {
	s, ok := d.scalar(v, instead)
	if !ok {
		return "", false
	}
	if strings.TrimSpace(s.text) == "" {
		d.problem(v, s.quoted()+" is empty", instead)
		return "", false
	}
	if i := strings.IndexByte(s.text, 0); i >= 0 {
		d.problem(v, s.quoted()+" has a NUL character in it", "remove it")
		return "", false
	}
	return s.text, true
}

// word reads one of a few words.
func (d *decoder) word(v value, words ...string) (string, bool) {
	instead := "write " + strings.Join(words, " or ")
	s, ok := d.scalar(v, instead)
	if !ok {
		return "", false
	}
	if !slices.Contains(words, s.text) {
		if meant := d.suggest.didYouMean(s.text, words); meant != "" {
			instead = meant
		}
		d.problem(v, s.quoted()+" is not possible here", instead)
		return "", false
	}
	return s.text, true
}

func (d *decoder) boolean(v value) (bool, bool) {
	s, ok := d.scalar(v, "write true or false")
	if !ok {
		return false, false
	}
	if b, err := strconv.ParseBool(s.text); err == nil && (s.tag == tagBool || s.expanded) {
		return b, true
	}
	instead := "write true or false"
	switch strings.ToLower(s.text) {
	case "yes", "on", "y", "true", "1":
		instead = "write true"
	case "no", "off", "n", "false", "0":
		instead = "write false"
	}
	if s.tag == tagString && (s.text == "true" || s.text == "false") {
		instead += " without quotes"
	}
	d.problem(v, s.quoted()+" is not true or false", instead)
	return false, false
}

// integer reads a whole number.
func (d *decoder) integer(v value, instead string) (int64, bool) {
	s, ok := d.scalar(v, instead)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(s.text, 10, 64)
	switch {
	case err == nil && (s.tag == tagInt || s.expanded):
		return n, true
	case err == nil:
		instead = fmt.Sprintf("write %d without quotes", n)
	}
	d.problem(v, s.quoted()+" is not a whole number", instead)
	return 0, false
}

// length reads a duration of whatever length.
func (d *decoder) length(v value) (scalar, time.Duration, bool) {
	s, ok := d.scalar(v, `write a duration such as "30s"`)
	if !ok {
		return s, 0, false
	}
	length, what, instead := parseDuration(s.text)
	if what != "" {
		d.problem(v, s.quoted()+" is not a duration", instead)
	}
	return s, length, what == ""
}

// duration reads a duration that is not negative, and longer than 0 unless
// zero is allowed.
func (d *decoder) duration(v value, zero bool) (time.Duration, bool) {
	s, length, ok := d.length(v)
	if !ok {
		return 0, false
	}
	var what, instead string
	switch {
	case length < 0:
		what, instead = s.quoted()+" is negative", fmt.Sprintf("write %q", words.Duration(-length))
	case length == 0 && !zero:
		what, instead = s.quoted()+" must be positive", `write a duration such as "30s", or leave it out`
	case length > 0 && length < time.Millisecond:
		what, instead = s.quoted()+" is too short", "write 1ms or more"
	default:
		return length, true
	}
	d.problem(v, what, instead)
	return 0, false
}
