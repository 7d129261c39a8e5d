package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Schema returns a JSON Schema (draft 2020-12) of the file, from which editors
// complete it and check it while it is written. It is made of the same shapes
// that files are read by. It knows less than Parse: not whether values fit
// together, and of schedules, durations and names only the form. Whatever Parse
// accepts, it accepts.
func Schema() ([]byte, error) { return schemaOf(&fileShape, "Configuration of the lockkeeper daemon") }

// OverridesSchema returns the like of Schema for overrides files.
func OverridesSchema() ([]byte, error) {
	return schemaOf(&overridesFileShape, "Operators' overrides of lockkeeper")
}

func schemaOf(file *shape, title string) ([]byte, error) {
	b := schemaBuilder{defs: map[string]*schemaNode{}, shapes: map[string]*shape{}}
	root, err := b.object(file)
	if err != nil {
		return nil, err
	}
	root.Schema = "https://json-schema.org/draft/2020-12/schema"
	root.Title = title
	root.Defs = b.defs
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(root); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// A schemaNode is one schema. Its fields are written in this order, and maps by
// their keys: two builds make the same bytes.
type schemaNode struct {
	Schema      string                 `json:"$schema,omitempty"`
	Ref         string                 `json:"$ref,omitempty"`
	Title       string                 `json:"title,omitempty"`
	Description string                 `json:"description,omitempty"`
	Default     any                    `json:"default,omitempty"`
	Type        any                    `json:"type,omitempty"` // a string, or several
	Enum        []string               `json:"enum,omitempty"`
	Pattern     string                 `json:"pattern,omitempty"`
	Minimum     *int64                 `json:"minimum,omitempty"`
	Maximum     *int64                 `json:"maximum,omitempty"`
	Items       *schemaNode            `json:"items,omitempty"`
	MinItems    int                    `json:"minItems,omitempty"`
	Properties  map[string]*schemaNode `json:"properties,omitempty"`
	Additional  any                    `json:"additionalProperties,omitempty"` // false, or a schema
	Required    []string               `json:"required,omitempty"`
	AnyOf       []*schemaNode          `json:"anyOf,omitempty"`
	Defs        map[string]*schemaNode `json:"$defs,omitempty"`
}

type schemaBuilder struct {
	defs   map[string]*schemaNode // by the name of the shape
	shapes map[string]*shape
}

// object makes the schema of a mapping of known keys.
func (b *schemaBuilder) object(s *shape) (*schemaNode, error) {
	n := &schemaNode{Type: "object", Properties: map[string]*schemaNode{}, Additional: false, Required: s.must()}
	for _, k := range s.keys {
		property, err := b.value(k.kind)
		if err != nil {
			return nil, fmt.Errorf("%s.%s: %w", s.name, k.name, err)
		}
		property.Description, property.Default = k.doc, k.kind.written(k.without)
		n.Properties[k.name] = property
	}
	for _, name := range s.any {
		n.AnyOf = append(n.AnyOf, &schemaNode{Required: []string{name}})
	}
	return n, nil
}

// reference puts a shape among the definitions, once.
func (b *schemaBuilder) reference(s *shape) (*schemaNode, error) {
	name := s.definition()
	if known, taken := b.shapes[name]; !taken {
		b.shapes[name] = s
		n, err := b.object(s)
		if err != nil {
			return nil, err
		}
		b.defs[name] = n
	} else if known != s {
		return nil, fmt.Errorf("two shapes are called %q", name)
	}
	return &schemaNode{Ref: "#/$defs/" + name}, nil
}

// definition is the name of a shape among the definitions.
func (s *shape) definition() string {
	name := strings.TrimPrefix(strings.TrimPrefix(s.name, "a "), "an ")
	return strings.NewReplacer(" ", "_", ".", "_").Replace(name)
}

func (b *schemaBuilder) value(k kind) (*schemaNode, error) {
	switch {
	case k.either != nil:
		n := &schemaNode{}
		for _, one := range k.either {
			inner, err := b.value(one)
			if err != nil {
				return nil, err
			}
			n.AnyOf = append(n.AnyOf, inner)
		}
		return n, nil
	case k.shape != nil:
		return b.reference(k.shape)
	case k.list != nil:
		items, err := b.value(*k.list)
		n := &schemaNode{Type: "array", Items: items}
		if k.some {
			n.MinItems = 1
		}
		return n, err
	case k.names != nil:
		each, err := b.value(*k.names)
		return &schemaNode{Type: "object", Additional: each}, err
	}
	return k.plain(), nil
}

const (
	// variable is in a value that comes from the environment, at least in part.
	variable = `\$\{`

	unitForm     = `(ns|us|µs|μs|ms|s|m|h)`
	durationForm = `^[+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)` + unitForm + `)+$|^-((0+(\.0*)?|\.0+)` + unitForm + `)+$`
	momentForm   = `^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})$`
	sizeForm     = `^[0-9]+ *((Ki|Mi|Gi|k|K|M|G)?B)?$`
)

// plain makes the schema of a value that is neither a list nor a mapping.
func (k kind) plain() *schemaNode {
	fromOutside := &schemaNode{Type: "string", Pattern: variable}
	switch k.scalar {
	case ofDuration:
		return &schemaNode{AnyOf: []*schemaNode{
			{Type: "string", Pattern: durationForm},
			// 0 needs no unit
			{Type: []string{"integer", "string"}, Pattern: `^[+-]?0$|` + variable, Minimum: new(int64), Maximum: new(int64)},
		}}
	case ofWholeNumber:
		n := &schemaNode{Type: "integer", Minimum: k.least, Maximum: k.most}
		return &schemaNode{AnyOf: []*schemaNode{n, fromOutside}}
	case ofNumber:
		return &schemaNode{AnyOf: []*schemaNode{{Type: "number"}, fromOutside}}
	case ofBoolean:
		return &schemaNode{AnyOf: []*schemaNode{{Type: "boolean"}, fromOutside}}
	case ofSize:
		return &schemaNode{
			AnyOf: []*schemaNode{{Type: "integer", Minimum: new(int64(1))}, {Type: "string", Pattern: sizeForm}, fromOutside},
		}
	case ofMoment:
		return &schemaNode{AnyOf: []*schemaNode{{Type: "string", Pattern: momentForm}, fromOutside}}
	case ofNothing:
		return &schemaNode{Type: "null"}
	case ofAnything:
		return &schemaNode{}
	case ofName:
		return &schemaNode{Type: "string", Pattern: `\S`}
	case ofGoFunc:
		return &schemaNode{Type: "string", Pattern: "^" + goPrefix + "|" + variable}
	case ofText:
		if len(k.words) > 0 {
			return &schemaNode{AnyOf: []*schemaNode{{Type: "string", Enum: k.words}, fromOutside}}
		}
		return &schemaNode{Type: asText, Pattern: `\S`}
	case ofAnyText, noScalar:
	}
	return &schemaNode{Type: asText}
}

// asText is what is taken as text: numbers and the like as they are written.
var asText = []string{"string", "number", "boolean"}

// written returns a default as a value of the file; nil if it is none.
func (k kind) written(without string) any {
	if without == "" {
		return nil
	}
	for _, one := range append([]kind{k}, k.either...) {
		switch one.scalar {
		case ofWholeNumber:
			if n, err := strconv.ParseInt(without, 10, 64); err == nil {
				return n
			}
		case ofBoolean:
			if v, err := strconv.ParseBool(without); err == nil {
				return v
			}
		case ofDuration:
			if _, what, _ := parseDuration(without); what == "" {
				return without
			}
		case ofSize:
			return without
		case ofText:
			if len(one.words) == 0 && !strings.ContainsAny(without, " ") || slices.Contains(one.words, without) {
				return without
			}
		case noScalar, ofAnyText, ofName, ofGoFunc, ofNumber, ofMoment, ofNothing, ofAnything:
			// no key of these has a default
		}
	}
	return nil
}
