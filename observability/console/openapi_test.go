package console

import (
	"bytes"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestOpenAPIFileIsWhatTheRoutesAndTypesSay(t *testing.T) {
	c := newConsole(t, Options{})
	want, err := c.describe()
	require.NoError(t, err)
	golden(t, "openapi.json", string(want)+"\n")
}

// strict is the file with all objects closed: a field that it does not name fails.
func strict(t *testing.T) *jsonschema.Compiler {
	t.Helper()
	data, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	require.NoError(t, err)
	for _, schema := range doc.(map[string]any)["components"].(map[string]any)["schemas"].(map[string]any) {
		schema.(map[string]any)["additionalProperties"] = false
	}
	compiler := jsonschema.NewCompiler()
	require.NoError(t, compiler.AddResource("https://lockkeeper.test/openapi.json", doc))
	return compiler
}

// answerSchema is that of what a route answers.
func answerSchema(t *testing.T, compiler *jsonschema.Compiler, r route) *jsonschema.Schema {
	t.Helper()
	schema, err := compiler.Compile("https://lockkeeper.test/openapi.json#/paths/" + strings.NewReplacer("/", "~1", "{", "%7B", "}", "%7D").Replace(r.path) +
		"/" + strings.ToLower(r.method) + "/responses/200/content/application~1json/schema")
	require.NoError(t, err)
	return schema
}

func TestFieldThatTheOpenAPIFileRequiresIsMissed(t *testing.T) {
	users := usersOf(t, map[string]string{"ana": "secret"})
	c := newConsole(t, Options{Operator: &recorded{}, Users: users})
	whole := map[string]string{"reason": "because", "token": "1", "confirm": "a", "id": "INC-1", "kind": "freeze", "for": "2h"}
	for _, r := range c.routes() {
		for _, missing := range deedBodies[r.body].must {
			body := map[string]string{}
			for _, field := range deedBodies[r.body].must {
				if field != missing {
					body[field] = whole[field]
				}
			}
			if r.body == "apply" {
				body["scope"] = "db/*"
			}
			sent, err := json.Marshal(body)
			require.NoError(t, err)
			target := strings.NewReplacer("{scope}", "a", "{name}", "a", "{id}", "a").Replace(r.path)
			answer := ask(t, c, r.method, target, string(sent), as("ana", "secret"), asJSON)
			got := text(t, answer)
			require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, "%s without %s: %s", target, missing, got)
			var p problem
			require.NoError(t, json.Unmarshal([]byte(got), &p))
			require.True(t, slices.ContainsFunc(p.Problems, func(f fieldProblem) bool { return f.Field == missing }), "%s without %s: %s", target, missing, got)
		}
	}
}

func TestEveryRefusalOfTheAPIIsAProblemObject(t *testing.T) {
	c := newConsole(t, Options{})
	schema, err := strict(t).Compile("https://lockkeeper.test/openapi.json#/components/schemas/Problem")
	require.NoError(t, err)
	for target, want := range map[string]int{
		"GET /api/v1/locks?limit=0":                             422,
		"GET /api/v1/locks?limit=1001":                          422,
		"GET /api/v1/locks?nonsense=1":                          422,
		"GET /api/v1/locks?sort=up":                             422,
		"GET /api/v1/locks?q=a&q=b":                             422,
		"GET /api/v1/heat?columns=501":                          422,
		"GET /api/v1/events?after=-1":                           422,
		"GET /api/v1/audit?within=soon":                         422,
		"GET /api/v1/locks/%00":                                 422,
		"GET /api/v1/jobs/none":                                 404,
		"GET /api/v1/jobs/%00":                                  422,
		"GET /api/v1/groups/none":                               404,
		"GET /api/v1/nothing":                                   404,
		"DELETE /api/v1/locks":                                  405,
		"POST /api/v1/jobs/nightly-compaction/pause":            403,
		"POST /api/v1/overrides":                                403,
		"GET /api/v1/locks?q=" + strings.Repeat("a", maxText+1): 422,
	} {
		method, path, _ := strings.Cut(target, " ")
		answer := ask(t, c, method, path, "")
		got := text(t, answer)
		require.Equal(t, want, answer.StatusCode, "%s: %s", target, got)
		require.Equal(t, "application/problem+json", answer.Header.Get("Content-Type"), target)
		is, err := jsonschema.UnmarshalJSON(strings.NewReader(got))
		require.NoError(t, err)
		require.NoError(t, schema.Validate(is), got)
		var p problem
		require.NoError(t, json.Unmarshal([]byte(got), &p))
		require.Equal(t, want, p.Status)
		require.NotEmpty(t, p.Next, "%s says no next step", target)
	}
}
