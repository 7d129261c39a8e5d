package console

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// apiDeed does what a request in JSON says.
func (c *Console) apiDeed(verb, pathValue string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		person := who(r.Context())
		if bad := c.may(person); bad != nil {
			if bad.Status == http.StatusUnauthorized && c.o.Users != nil {
				w.Header().Set("WWW-Authenticate", `Basic realm="lockkeeper", charset="UTF-8"`)
			}
			writeProblem(w, *bad)
			return
		}
		p, err := jsonParams(r, deedBodies[verb].fields())
		if err != nil {
			writeProblem(w, *problemOf(err))
			return
		}
		target := ""
		if pathValue != "" {
			target = r.PathValue(pathValue)
		}
		if pathValue == "scope" {
			if _, err := lock.EscapeScope(target); err != nil {
				writeProblem(w, *problemOf(err))
				return
			}
		}
		d := c.deed(verb, target, person, p)
		if wrong := p.done(); len(wrong) > 0 {
			writeProblem(w, *badFields(wrong))
			return
		}
		done, err := c.carryOut(r.Context(), person, d)
		if err != nil {
			writeProblem(w, *failed(done, err))
			return
		}
		writeJSON(w, done)
	}
}

// jsonParams reads an object of texts, numbers and truth values.
func jsonParams(r *http.Request, known []string) (*params, error) {
	bad := func(detail string) error {
		return &problem{
			Status: http.StatusBadRequest, Title: "Not JSON", Detail: detail,
			Next: "send an object with the fields of /api/v1/openapi.json",
		}
	}
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, &problem{
			Status: http.StatusUnsupportedMediaType, Title: "Not JSON",
			Detail: "the content type is " + quoted(r.Header.Get("Content-Type")), Next: "send application/json",
		}
	}
	decoder := json.NewDecoder(r.Body)
	decoder.UseNumber()
	var fields map[string]any
	if err := decoder.Decode(&fields); err != nil {
		if is[*http.MaxBytesError](err) {
			return nil, err
		}
		return nil, bad("the body cannot be read: " + clip(err.Error()))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, bad("there is something behind the object")
	}
	p := &params{values: url.Values{}}
	for name, value := range fields {
		if !slices.Contains(known, name) {
			p.wrong(clip(name), "means nothing here")
			continue
		}
		kind, text := "", ""
		switch is := value.(type) {
		case nil:
			continue
		case string:
			kind, text = "string", is
		case json.Number:
			kind, text = "integer", is.String()
		case bool:
			kind, text = "boolean", strconv.FormatBool(is)
		}
		if types := deedTypes(name); !slices.Contains(types, kind) {
			p.wrong(name, "is not of the type %s", strings.Join(types, " or "))
			continue
		}
		p.values.Set(name, text)
	}
	return p, nil
}
