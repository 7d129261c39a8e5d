package console

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/views"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// full returns a value in which every exported field says something.
func full[T any](t *testing.T) T {
	t.Helper()
	var v T
	fill(t, reflect.ValueOf(&v).Elem())
	return v
}

// filled is every text in it: a name that is looked for is there.
const filled = "a"

func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch is := v.Addr().Interface().(type) {
	case *time.Time:
		*is = noon
		return
	case *time.Duration:
		*is = 1500 * time.Millisecond
		return
	case *priority.Millis:
		*is = priority.Millis(1500 * time.Millisecond)
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, key)
		fill(t, value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i, f := range slices.Collect(v.Type().Fields()) {
			if f.IsExported() || f.Anonymous {
				fill(t, v.Field(i))
			}
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(filled)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(1)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		v.SetUint(1)
	default:
		require.Fail(t, "what is there of this kind in an answer?", "%s", v.Type())
	}
}

func fullFact[T any](t *testing.T) func(context.Context) ([]T, []lock.Unreadable, error) {
	return func(context.Context) ([]T, []lock.Unreadable, error) {
		return full[[]T](t), full[[]lock.Unreadable](t), nil
	}
}

// fullConsole is one whose answers have every field.
func fullConsole(t *testing.T) *Console {
	t.Helper()
	users := usersOf(t, map[string]string{"ana": "secret"})
	board := newScripted(full[live.Snapshot](t))
	board.timeline = func(string, time.Time, time.Time) live.Timeline { return full[live.Timeline](t) }
	board.heat = func(time.Time, time.Time, int) live.Heat { return full[live.Heat](t) }
	board.entries = []live.Entry{full[live.Entry](t)}
	return newConsole(t, Options{Board: board, Operator: &recorded{}, Users: users, Facts: Facts{
		Approvals: fullFact[views.Approval](t),
		Audit: func(context.Context, opstore.AuditQuery) ([]opstore.AuditRecord, []lock.Unreadable, error) {
			return full[[]opstore.AuditRecord](t), full[[]lock.Unreadable](t), nil
		},
		Frozen:    fullFact[lock.FrozenRequest](t),
		Groups:    fullFact[views.Group](t),
		Job:       func(context.Context, string) (views.JobDetail, error) { return full[views.JobDetail](t), nil },
		Jobs:      fullFact[views.Job](t),
		Overrides: fullFact[views.Override](t),
	}})
}

// A spec is openapi.json, as JSON.
type spec map[string]any

// unsent returns the fields that a schema has and a value has not, by path. Every
// field of a value that a schema does not have, or has of another type, is what
// validation finds.
func (s spec) unsent(schema map[string]any, value any, path string) (fields []string) {
	if ref, ok := schema["$ref"].(string); ok {
		name := strings.TrimPrefix(ref, "#/components/schemas/")
		return s.unsent(s["components"].(map[string]any)["schemas"].(map[string]any)[name].(map[string]any), value, path)
	}
	if kinds, ok := schema["anyOf"].([]any); ok { // or null
		return s.unsent(kinds[0].(map[string]any), value, path)
	}
	switch is := value.(type) {
	case []any:
		if items, ok := schema["items"].(map[string]any); ok && len(is) > 0 {
			return s.unsent(items, is[0], path+"[]")
		}
		return []string{path + "[]: empty"}
	case map[string]any:
		properties, _ := schema["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(properties)) {
			if inner, sent := is[name]; sent {
				fields = append(fields, s.unsent(properties[name].(map[string]any), inner, path+"."+name)...)
			} else {
				fields = append(fields, path+"."+name)
			}
		}
		if more, ok := schema["additionalProperties"].(map[string]any); ok {
			for name, inner := range is {
				fields = append(fields, s.unsent(more, inner, path+"."+name)...)
			}
		}
	case nil:
		fields = append(fields, path+": null")
	}
	return fields
}

func TestEveryFieldOfTheOpenAPIFileIsSentWithItsType(t *testing.T) {
	c := fullConsole(t)
	compiler := strict(t)
	var file spec
	require.NoError(t, json.Unmarshal(c.spec, &file))
	bodies := map[string]string{
		"break": `{"reason":"gone","token":1,"confirm":"a"}`,
		"apply": `{"reason":"disk","id":"INC-1","kind":"freeze","scope":"db/*","for":"2h"}`,
	}
	var answers strings.Builder
	for _, r := range c.routes() {
		if r.path == "/api/v1/openapi.json" {
			continue
		}
		t.Run(r.method+" "+r.path, func(t *testing.T) {
			target := strings.NewReplacer("{scope}", filled, "{name}", filled, "{id}", filled).Replace(r.path)
			body := bodies[r.body]
			if r.body != "" && body == "" {
				body = `{"reason":"because"}`
			}
			answer := ask(t, c, r.method, target, body, as("ana", "secret"), asJSON)
			got := text(t, answer)
			require.Equal(t, http.StatusOK, answer.StatusCode, got)
			require.Equal(t, "application/json", answer.Header.Get("Content-Type"))
			answers.WriteString(r.method + " " + r.path + "\n" + got)
			operation := file["paths"].(map[string]any)[r.path].(map[string]any)[strings.ToLower(r.method)].(map[string]any)
			schema := operation["responses"].(map[string]any)["200"].(map[string]any)["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
			var is any
			require.NoError(t, json.Unmarshal([]byte(got), &is))
			missing := slices.DeleteFunc(file.unsent(schema, is, ""), func(field string) bool {
				return field == ".lock.frozen[].for[]: empty" // a frozen request waits for no holder
			})
			require.Empty(t, missing, "the file has fields that no answer has: %s", got)
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(got))
			require.NoError(t, err)
			require.NoError(t, answerSchema(t, compiler, r).Validate(value), got)
		})
	}
	golden(t, "testdata/answers.txt", answers.String())
	problems := full[problem](t)
	sent, err := json.Marshal(problems)
	require.NoError(t, err)
	var is any
	require.NoError(t, json.Unmarshal(sent, &is))
	require.Empty(t, file.unsent(map[string]any{"$ref": "#/components/schemas/Problem"}, is, ""))
}
