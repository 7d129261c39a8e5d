package temporal

import (
	"errors"
	"fmt"
	"strings"
	"text/template"

	"github.com/lockkeeper/lockkeeper/priority"
)

// A scopeTemplate is a scope that may depend on the arguments of an activity.
type scopeTemplate struct {
	text     string
	template *template.Template // nil: it depends on nothing
}

// arguments are what a scope may depend on.
type arguments struct {
	args       []any
	workflowID string
}

// parseScope never returns nil.
func parseScope(text string) (*scopeTemplate, error) {
	s := &scopeTemplate{text: text}
	if !strings.Contains(text, "{{") {
		return s, nil
	}
	t, err := template.New("scope").Option("missingkey=error").Funcs(arguments{}.functions()).Parse(text)
	if err != nil {
		return s, fmt.Errorf("%q is no template: %w; write such as cluster/{{.Cluster}}/resource/{{arg 1}}", text, err)
	}
	s.template = t
	return s, nil
}

// class is what locks with such scopes are counted under.
func (s *scopeTemplate) class() string {
	if priority.CheckClass(s.text) != nil {
		return ""
	}
	return s.text
}

func (s *scopeTemplate) varies() bool { return s.template != nil }

// render returns the scope of one call.
func (s *scopeTemplate) render(a arguments) (string, error) {
	if !s.varies() {
		return s.text, nil
	}
	t, err := s.template.Clone() // its functions are those of this call
	if err != nil {
		return "", err
	}
	var dot any
	if len(a.args) > 0 {
		dot = a.args[0]
	}
	var b strings.Builder
	if err := t.Funcs(a.functions()).Execute(&b, dot); err != nil {
		return "", fmt.Errorf("does not fit the arguments: %w", err)
	}
	text := b.String()
	if strings.Contains(text, "<no value>") || strings.Contains(text, "<nil>") {
		return "", fmt.Errorf("became %q: an argument is missing", text)
	}
	return text, nil
}

func (a arguments) functions() template.FuncMap {
	return template.FuncMap{
		"arg": func(i int) (any, error) {
			if i < 0 || i >= len(a.args) {
				return nil, fmt.Errorf("there is no argument %d: the activity has %d, counted from 0", i, len(a.args))
			}
			return a.args[i], nil
		},
		"workflowID": func() (string, error) {
			if a.workflowID == "" {
				return "", errors.New("the activity has no workflow")
			}
			return a.workflowID, nil
		},
	}
}
