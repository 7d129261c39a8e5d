package config

import (
	"errors"
	"net/http"
	"strings"

	"github.com/lockkeeper/lockkeeper/jobs"
)

var httpShape = shape{
	name:    "http",
	example: "write it like {url: https://example.com/compact, method: POST}",
	keys: []key{
		{"url", aText, "", "What to ask, https://host/path."},
		{"method", aText, http.MethodPost, "GET, PUT and the like."},
		{"headers", named(anyText), "", "Sent along, by name."},
		{"body", anyText, "", "Sent along; as application/json if it is JSON."},
		{"expect", someOf(wholeNumber(200, 599)), "200 to 299", "The statuses that mean success."},
	},
	must:  []string{"url"},
	later: []string{"auth", "tls", "proxy"},
	hints: map[string]string{
		"header": `did you mean "headers"?`, "status": `did you mean "expect"?`, "data": `did you mean "body"?`, "json": `did you mean "body"?`,
		"timeout": "it belongs to the job, beside run", "retry": "it belongs to the job, beside run", "output": "it belongs beside http",
	},
}

// http reads a request; nil if it is none.
func (r *reader) http(v value, output int) *jobs.HTTP {
	o, ok := r.optional(v, httpShape)
	if !ok {
		return nil
	}
	request := &jobs.HTTP{MaxOutput: output}
	before := r.problems()
	if o.has("url") {
		request.URL, _ = r.text(o.get("url"), "write one such as https://example.com/compact")
	} else {
		r.missing(v, "url is missing", httpShape.example)
	}
	if v := o.get("method"); v.exists() {
		request.Method, _ = r.text(v, "write a method such as POST")
	}
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
	if v := o.get("body"); v.exists() {
		if s, ok := r.scalar(v, "write a text, for example '{\"all\": true}'"); ok {
			request.Body = []byte(s.text)
		}
	}
	if v := o.get("expect"); v.exists() {
		items, _ := r.items(v, "write a list of statuses, for example [200, 204]")
		if len(items) == 0 && r.isList(v) {
			r.missing(v, "the list is empty", "write [200, 204], or leave it out for 200 to 299")
		}
		for _, item := range items {
			wrong := r.problems()
			if status := int(r.between(item, 200, 599, "write a status such as 204")); r.problems() == wrong {
				request.Expect = append(request.Expect, status)
			}
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
		if key, _, _ := strings.Cut(field, "["); o.get(key).exists() {
			return o.get(key)
		}
		return v
	})
	if r.problems() > before {
		return nil
	}
	return request
}

// blamed reports what package jobs refuses, where that stands.
func (r *reader) blamed(err error, at func(field string) value) {
	for _, one := range unjoin(err) {
		r.refused(at(refusedField(one)), one)
	}
}
