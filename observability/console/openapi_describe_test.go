package console

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/override"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// object is one in JSON.
type object = map[string]any

// describe writes openapi.json, which the console serves, from the routes and the types of their
// answers: who changes one of those has to commit the other.
func (c *Console) describe() ([]byte, error) {
	s := schemas{all: object{}, types: map[string]reflect.Type{}}
	paths := object{}
	for _, r := range c.routes() {
		var parameters []object
		for part := range strings.SplitSeq(r.path, "/") {
			if name, ok := strings.CutPrefix(part, "{"); ok {
				name = strings.TrimSuffix(name, "}")
				parameters = append(parameters, object{"name": name, "in": "path", "required": true, "schema": object{"type": "string"}})
			}
		}
		for _, q := range r.query {
			parameters = append(parameters, object{"name": q.name, "in": "query", "description": q.help, "schema": q.schema()})
		}
		content := object{"application/json": object{"schema": s.of(reflect.TypeOf(r.answer))}}
		if r.path == "/api/v1/events" {
			content["text/event-stream"] = object{"schema": object{"type": "string"}}
		}
		answer := object{"description": "The answer.", "content": content}
		if r.names {
			answer["headers"] = object{leftHeader: object{
				"description": "A node that cannot be read and is left out, with its path and the reason; once for each, up to 20.",
				"content":     object{"application/json": object{"schema": s.of(reflect.TypeFor[lock.Unreadable]())}},
			}}
		}
		operation := object{
			"summary":   r.summary,
			"responses": object{"200": answer, "default": object{"$ref": "#/components/responses/problem"}},
		}
		if len(parameters) > 0 {
			operation["parameters"] = parameters
		}
		if r.body != "" {
			operation["requestBody"] = object{"required": true, "content": object{"application/json": object{"schema": object{"$ref": "#/components/schemas/" + s.deed(r.body)}}}}
			operation["security"] = []object{{"password": []string{}}}
		}
		at, ok := paths[r.path].(object)
		if !ok {
			at = object{}
			paths[r.path] = at
		}
		at[strings.ToLower(r.method)] = operation
	}
	problemSchema := s.of(reflect.TypeFor[problem]())
	return json.MarshalIndent(object{
		"openapi": "3.1.0",
		"info": object{
			"title": "Lockkeeper", "version": "1", "license": object{"name": "Apache-2.0", "identifier": "Apache-2.0"},
			"description": "All locks: who holds, who waits, why, since when; jobs, groups, overrides, approvals and the audit trail. Times are those of the ZooKeeper servers. Fields may be added.",
		},
		"paths": paths,
		"components": object{
			"schemas":         s.all,
			"responses":       object{"problem": object{"description": "Why there is no answer, and what to do next.", "content": object{"application/problem+json": object{"schema": problemSchema}}}},
			"securitySchemes": object{"password": object{"type": "http", "scheme": "basic"}},
		},
	}, "", "  ")
}

func (q queryParam) schema() object {
	if words := strings.Split(q.kind, "|"); len(words) > 1 {
		return object{"type": "string", "enum": words}
	}
	return object{"type": q.kind}
}

// schemas are the types of answers, by name.
type schemas struct {
	all   object
	types map[string]reflect.Type
}

// of returns the schema of a type.
func (s schemas) of(t reflect.Type) object {
	switch t {
	case reflect.TypeFor[time.Time]():
		return object{"type": "string", "format": "date-time"}
	case reflect.TypeFor[*priority.Millis](), reflect.TypeFor[*override.Level](): // those that are not set are left out, and never null
		return s.of(t.Elem())
	case reflect.TypeFor[priority.Level](), reflect.TypeFor[priority.Millis](), reflect.TypeFor[lock.Token]():
		return object{"type": "integer"}
	case reflect.TypeFor[override.Level]():
		return object{"type": []string{"integer", "string"}} // the word emergency
	case reflect.TypeFor[priority.Mode](), reflect.TypeFor[priority.Reason]():
		return object{"type": "string"}
	case reflect.TypeFor[override.MatchRecord]():
		return s.named("Match", t)
	case reflect.TypeFor[lock.Mark]():
		return s.named("OverrideMark", t)
	}
	switch t.Kind() {
	case reflect.Pointer:
		return object{"anyOf": []object{s.of(t.Elem()), {"type": "null"}}}
	case reflect.Slice:
		return object{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		if t.Elem().Kind() == reflect.Interface {
			return object{"type": "object"}
		}
		return object{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.named(title(t.Name()), t)
	case reflect.Bool:
		return object{"type": "boolean"}
	case reflect.String:
		return object{"type": "string"}
	case reflect.Int, reflect.Int64, reflect.Int32, reflect.Uint64, reflect.Uint32, reflect.Uint:
		return object{"type": "integer"}
	default:
		panic(fmt.Sprintf("console: %s is in an answer, and has no schema", t)) // the test that compares openapi.json meets it
	}
}

func title(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

// named describes a struct once, and refers to it.
func (s schemas) named(name string, t reflect.Type) object {
	ref := object{"$ref": "#/components/schemas/" + name}
	if was, ok := s.types[name]; ok {
		if was != t {
			panic(fmt.Sprintf("console: %s and %s are called %s both", was, t, name)) // likewise
		}
		return ref
	}
	s.types[name] = t
	properties := object{}
	description := object{"type": "object", "properties": properties}
	s.all[name] = description
	var required []string
	s.fields(t, properties, &required)
	slices.Sort(required)
	if len(required) > 0 {
		description["required"] = slices.Compact(required)
	}
	return ref
}

// fields adds those of a struct, and of those embedded in it.
func (s schemas) fields(t reflect.Type, into object, required *[]string) {
	for f := range t.Fields() {
		tag, ok := f.Tag.Lookup("json")
		name, more, _ := strings.Cut(tag, ",")
		switch {
		case f.Anonymous && !ok:
			s.fields(f.Type, into, required)
			continue
		case !f.IsExported(), name == "-", name == "":
			continue
		}
		into[name] = s.of(f.Type)
		if more == "" {
			*required = append(*required, name)
		}
	}
}

// deed describes what somebody has to send.
func (s schemas) deed(verb string) string {
	name := "Do" + title(verb)
	properties, required := object{}, slices.Sorted(slices.Values(deedBodies[verb].must))
	for _, field := range deedBodies[verb].fields() {
		properties[field] = object{"type": deedTypes(field)}
		if types := deedTypes(field); len(types) == 1 {
			properties[field] = object{"type": types[0]}
		}
	}
	s.all[name] = object{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
	return name
}
