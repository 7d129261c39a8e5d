package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v4"
)

const published = "../docs/lockkeeper.schema.json"

func TestPublishedSchemaIsThatOfTheReader(t *testing.T) {
	for name, schemaOf := range map[string]func() ([]byte, error){published: Schema, "../docs/overrides.schema.json": OverridesSchema} {
		schema, err := schemaOf()
		require.NoError(t, err)
		if *update {
			require.NoError(t, os.WriteFile(name, schema, 0o644))
		}
		want, err := os.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, string(want), string(schema), "go test ./config -update")
	}
}

// validator is the schema, ready to judge.
var validator = sync.OnceValues(func() (*jsonschema.Schema, error) { return compile(Schema()) })

// overridesValidator is that of overrides files.
var overridesValidator = sync.OnceValues(func() (*jsonschema.Schema, error) { return compile(OverridesSchema()) })

func compile(text []byte, err error) (*jsonschema.Schema, error) {
	if err != nil {
		return nil, err
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource("schema.json", schema); err != nil {
		return nil, err
	}
	return c.Compile("schema.json")
}

// bySchema returns what the schema has against a file.
func bySchema(t *testing.T, text string) error {
	t.Helper()
	return judged(t, validator, text)
}

// overridesBySchema returns what the schema has against an overrides file.
func overridesBySchema(t *testing.T, text string) error {
	t.Helper()
	return judged(t, overridesValidator, text)
}

func judged(t *testing.T, validator func() (*jsonschema.Schema, error), text string) error {
	t.Helper()
	schema, err := validator()
	require.NoError(t, err)
	var content any
	require.NoError(t, yaml.Unmarshal([]byte(text), &content))
	text = jsonOf(content)
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err, text)
	return schema.Validate(instance)
}

// jsonOf writes what YAML has as JSON, whose names are texts.
func jsonOf(v any) string {
	switch v := v.(type) {
	case map[string]any:
		return mappingOf(v)
	case map[any]any:
		named := map[string]any{}
		for k, v := range v {
			named[fmt.Sprint(k)] = v
		}
		return mappingOf(named)
	case []any:
		items := make([]string, len(v))
		for i, item := range v {
			items[i] = jsonOf(item)
		}
		return "[" + strings.Join(items, ",") + "]"
	}
	text, err := json.Marshal(v)
	if err != nil { // not a number
		text, _ = json.Marshal(fmt.Sprint(v))
	}
	return string(text)
}

func mappingOf(named map[string]any) string {
	var fields []string
	for _, k := range slices.Sorted(maps.Keys(named)) {
		name, _ := json.Marshal(k) // a text can be
		fields = append(fields, string(name)+":"+jsonOf(named[k]))
	}
	return "{" + strings.Join(fields, ",") + "}"
}

func TestSchemaHasEveryFieldOfEveryShape(t *testing.T) {
	// given every shape there is
	sources, err := filepath.Glob("*.go")
	require.NoError(t, err)
	shapes := 0
	for _, name := range sources {
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		if !strings.HasSuffix(name, "_test.go") {
			shapes += len(regexp.MustCompile(`(?m)^(var )?\s*\w+Shape\s+= shape\{`).FindAll(source, -1))
		}
	}
	require.Len(t, slices.Concat(places, overridePlaces), shapes, "a shape that no test knows")

	for _, file := range []struct {
		schema func() ([]byte, error)
		places []place
	}{{Schema, places}, {OverridesSchema, overridePlaces}} {
		// when
		text, err := file.schema()
		require.NoError(t, err)
		var schema struct {
			Properties map[string]any
			Defs       map[string]struct {
				Properties map[string]struct{ Description string }
				Additional any `json:"additionalProperties"`
			} `json:"$defs"`
		}
		require.NoError(t, json.Unmarshal(text, &schema))

		// then
		require.ElementsMatch(t, file.places[0].shape.names(), slices.Collect(maps.Keys(schema.Properties)))
		require.Len(t, schema.Defs, len(file.places)-1)
		for _, place := range file.places[1:] {
			def := schema.Defs[place.shape.definition()]
			require.ElementsMatch(t, place.shape.names(), slices.Collect(maps.Keys(def.Properties)), place.shape.name)
			require.Equal(t, false, def.Additional, place.shape.name)
			for name, property := range def.Properties {
				require.NotEmpty(t, property.Description, "%s.%s", place.shape.name, name)
			}
			for _, name := range place.shape.must() {
				require.Contains(t, place.shape.names(), name)
			}
		}
	}
}

func TestSchemaRefusesWhatTheReaderRefuses(t *testing.T) {
	for _, place := range places {
		for _, key := range place.shape.names() {
			require.Error(t, bySchema(t, fmt.Sprintf(place.text, key+": "+odd(key))), "%s in %s", key, place.shape.name)
		}
		require.Error(t, bySchema(t, fmt.Sprintf(place.text, "unknown: 1")), place.shape.name)
	}
	wrong, err := os.ReadFile("testdata/wrong.yaml")
	require.NoError(t, err)
	for name, text := range map[string]string{
		"a wrong file":      strings.Replace(string(wrong), "  backup:    ", "  backup2:  ", 1),
		"nothing":           "",
		"no version":        "jobs: {}",
		"another version":   strings.Replace(job(""), "1", "2", 1),
		"neither":           "version: 1",
		"no run":            "version: 1\njobs: {a: {schedule: manual}}",
		"no schedule":       "version: 1\njobs: {a: {run: [x]}}",
		"duration":          job("timeout: 5 minutes"),
		"duration, number":  job("timeout: 5"),
		"negative":          job("timeout: -5s"),
		"word":              job("overlap: bufer-one"),
		"word in mapping":   job("overlap: {policy: some}"),
		"retries":           job("retry: -1"),
		"retries, a word":   job("retry: often"),
		"no locks":          job("locks: []"),
		"no scope":          job("locks: [{priority: 1}]"),
		"priority":          lockOf("priority: 2147483647"),
		"priority, low":     lockOf("priority: -1"),
		"forceful":          lockOf("forceful: yes please"),
		"command":           job("run: /usr/bin/x"),
		"command, empty":    job("run: []"),
		"command, a number": job("run: 5"),
		"group":             "version: 1\ngroups: [{name: x}]",
		"group of nothing":  "version: 1\ngroups: [{name: x, locks: 0}]",
		"level":             file("log: {level: trace}\n"),
	} {
		require.Error(t, bySchema(t, text), name)
	}
}

func TestDefaultsInTheSchemaAreWhatAFileMaySay(t *testing.T) {
	text, err := Schema()
	require.NoError(t, err)
	for _, want := range []string{`"default": "10m"`, `"default": 0`, `"default": false`, `"default": "skip"`, `"default": "/lockkeeper"`} {
		require.Contains(t, string(text), want)
	}
	for _, place := range places {
		for _, k := range place.shape.keys {
			if written := k.kind.written(k.without); written != nil {
				text := fmt.Sprintf(place.text, fmt.Sprintf("%s: %v", k.name, written))
				_, problems, _ := parse(t, text)
				for _, problem := range problems {
					if strings.Contains(problem, "has no meaning") {
						continue // alone
					}
					require.NotContains(t, problem, "."+k.name+":", text)
				}
			}
		}
	}
}

// What an editor offers inside of a mapping.
func TestEditorsCompleteFromTheSchema(t *testing.T) {
	text, err := Schema()
	require.NoError(t, err)
	var root map[string]any
	require.NoError(t, json.Unmarshal(text, &root))
	for at, want := range map[string]*shape{
		"":                         &fileShape,
		"jobs/backup":              &jobShape,
		"jobs/backup/locks/0":      &lockShape,
		"jobs/backup/run":          &runShape,
		"jobs/backup/blackout/3":   &blackoutShape,
		"jobs/backup/retry":        &retryShape,
		"defaults/lock":            &defaultsLockShape,
		"priorities/classes/batch": &classShape,
		"groups/0":                 &groupShape,
		"zookeeper/tls":            &tlsShape,
	} {
		require.ElementsMatch(t, want.names(), complete(root, root, strings.FieldsFunc(at, func(c rune) bool { return c == '/' })), at)
	}
}

// complete returns the keys that a schema knows at a path.
func complete(root, n map[string]any, path []string) []string {
	if ref, ok := n["$ref"].(string); ok {
		return complete(root, root["$defs"].(map[string]any)[strings.TrimPrefix(ref, "#/$defs/")].(map[string]any), path)
	}
	var all []string
	if some, ok := n["anyOf"].([]any); ok {
		for _, one := range some {
			all = append(all, complete(root, one.(map[string]any), path)...)
		}
	}
	properties, _ := n["properties"].(map[string]any)
	if len(path) == 0 {
		return append(all, slices.Collect(maps.Keys(properties))...)
	}
	for _, next := range []any{properties[path[0]], n["items"], n["additionalProperties"]} {
		if inner, ok := next.(map[string]any); ok {
			all = append(all, complete(root, inner, path[1:])...)
		}
	}
	return all
}

func TestExamplesNameTheSchema(t *testing.T) {
	examples, err := filepath.Glob("../examples/*/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, examples)
	for _, name := range append(examples, "testdata/lockkeeper.yaml") {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		line, _, _ := strings.Cut(string(text), "\n")
		schema, found := strings.CutPrefix(line, "# yaml-language-server: $schema=")
		require.True(t, found, "%s begins with %q", name, line)
		_, err = os.Stat(filepath.Join(filepath.Dir(name), schema))
		require.NoError(t, err, name)
		require.NoError(t, bySchema(t, string(text)), name)
	}
}
