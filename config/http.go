package config

import (
	"errors"
	"net/http"
	"strings"

	"github.com/lockkeeper/lockkeeper/jobs"
)

var status = number[int](200, 599, "write a status such as 204")

var httpShape = shape{
	name:    "http",
	example: "write it like {url: https://example.com/compact, method: POST}",
	keys: []key{
		needed(to("url", text("write one such as https://example.com/compact"), "", "What to ask, https://host/path.",
			func(h *jobs.HTTP) *string { return &h.URL })),
		to("method", text("write a method such as POST"), http.MethodPost, "GET, PUT and the like.",
			func(h *jobs.HTTP) *string { return &h.Method }),
		apart("headers", named(anyText), "", "Sent along, by name."),
		by("body", anyText, "", "Sent along; as application/json if it is JSON.", (*reader).body),
		by("expect", someOf(status.kind), "200 to 299", "The statuses that mean success.", (*reader).expect),
	},
	later: []string{"auth", "tls", "proxy"},
	hints: map[string]string{
		"header": `did you mean "headers"?`, "status": `did you mean "expect"?`, "data": `did you mean "body"?`,
		"json":    `did you mean "body"?`,
		"timeout": "it belongs to the job, beside run", "retry": "it belongs to the job, beside run",
		"output": "it belongs beside http",
	},
}

// http reads a request; nil if it is none.
func (r *reader) http(v value, output int) *jobs.HTTP {
	request := &jobs.HTTP{MaxOutput: output}
	o, ok := r.optional(v, &httpShape)
	if !ok {
		return nil
	}
	before := r.problems()
	r.fill(o, request)
	headers := map[string]value{}
	if v := o.get("headers"); v.exists() {
		entries, _ := r.entries(v, "write it like {Authorization: Bearer ...}", v.named)
		for _, e := range entries {
			s, ok := r.scalar(e.value, `write a text; "" for an empty one`)
			if !ok {
				continue
			}
			if request.Header == nil {
				request.Header = http.Header{}
			}
			request.Header[e.name] = []string{s.text}
			headers[e.name] = e.key
		}
	}
	var problems []error
	for _, problem := range unjoin(request.Validate()) {
		if refusedField(problem) != "url" || request.URL != "" { // what is missing was said
			problems = append(problems, problem)
		}
	}
	r.blamed(errors.Join(problems...), func(field string) value {
		if name, ok := strings.CutPrefix(field, "headers."); ok && headers[name].exists() {
			return headers[name]
		}
		key, _, _ := strings.Cut(field, "[")
		return o.where(key)
	})
	if r.problems() > before {
		return nil
	}
	return request
}

func (r *reader) body(v value, request *jobs.HTTP) {
	if s, ok := r.scalar(v, "write a text, for example '{\"all\": true}'"); ok {
		request.Body = []byte(s.text)
	}
}

func (r *reader) expect(v value, request *jobs.HTTP) {
	items, _ := r.items(v, "write a list of statuses, for example [200, 204]")
	if len(items) == 0 && r.isList(v) {
		r.missing(v, "the list is empty", "write [200, 204], or leave it out for 200 to 299")
	}
	for _, item := range items {
		if n, ok := status.read(r, item); ok {
			request.Expect = append(request.Expect, n)
		}
	}
}

// blamed reports what package jobs refuses, where that stands.
func (r *reader) blamed(err error, at func(field string) value) {
	for _, one := range unjoin(err) {
		r.refused(at(refusedField(one)), one)
	}
}
