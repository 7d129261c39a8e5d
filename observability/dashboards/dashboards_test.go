package dashboards

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// committed is where the files are that operators import.
const committed = "../../dashboards"

var update = flag.Bool("update", false, "write "+committed+" and the table of docs/observability.md anew")

func TestCommittedFilesAreWhatThisPackageSays(t *testing.T) {
	files, err := Files()
	require.NoError(t, err)
	var names []string
	for _, f := range files {
		name := filepath.Join(committed, f.Name)
		names = append(names, name)
		if *update {
			require.NoError(t, os.MkdirAll(committed, 0o755))
			require.NoError(t, os.WriteFile(name, f.Text, 0o644))
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err, "go test ./observability/dashboards -update")
		require.Equal(t, string(f.Text), string(text), "%s: go test ./observability/dashboards -update", name)
	}
	there, err := filepath.Glob(committed + "/*")
	require.NoError(t, err)
	require.ElementsMatch(t, names, there, "a file that is no longer written")
}

func TestEachQueryHasOneNameAndOneMeaning(t *testing.T) {
	known := make(map[string]Query)
	for _, q := range everything() {
		require.Regexp(t, `^[a-z][a-z0-9_]*$`, q.Name)
		require.NotEmpty(t, q.Means, q.Name)
		require.NotEmpty(t, q.Unit, q.Name)
		if before, there := known[q.Name]; there {
			require.Equal(t, before, q, "two queries with this name")
		}
		known[q.Name] = q
	}
	texts := make(map[string]string)
	for name, q := range known {
		require.Empty(t, texts[q.text], "%s asks the same", name)
		texts[q.text] = name
	}
}

// everything are the queries of all panels and rules.
func everything() (all []Query) {
	for _, d := range All() {
		for _, p := range d.Panels() {
			all = append(all, p.Queries...)
		}
	}
	for _, r := range Recordings() {
		all = append(all, r.Query)
	}
	for _, a := range Alerts() {
		all = append(all, a.Query)
	}
	return all
}

func TestNothingButVariablesIsLeftOpen(t *testing.T) {
	open := regexp.MustCompile(`\$\w+`)
	for _, d := range All() {
		variables := []string{"$job", "$__rate_interval", "$__range", "$1"}
		if d.OneClass {
			variables = append(variables, "$class")
		}
		for _, p := range d.Panels() {
			for _, q := range p.Queries {
				expr := d.Expr(q)
				require.Subset(t, variables, open.FindAllString(expr, -1), expr)
				require.Contains(t, expr, ofJob, "%s: it has to be about the jobs that were chosen", q.Name)
			}
		}
	}
	for _, r := range Recordings() {
		require.NotRegexp(t, `\$[a-z]`, r.Expr())
	}
	for _, a := range Alerts() {
		require.NotRegexp(t, `\$[a-z]`, a.Expr())
		if strings.Contains(a.Query.text, "$window") || strings.Contains(a.Query.text, "$span") {
			require.NotZero(t, a.Window, a.Name)
		}
	}
}

// What is about one class asks for nothing of others, and what is about all can be
// narrowed to nothing less.
func TestDashboardOfOneClassAsksForThatClassAlone(t *testing.T) {
	for _, d := range All() {
		for _, p := range d.Panels() {
			for _, q := range p.Queries {
				require.Equal(t, d.OneClass, strings.Contains(d.Expr(q), `class="$class"`), "%s: %s", d.Name, d.Expr(q))
			}
		}
	}
}

func TestPanelsStandBesideEachOther(t *testing.T) {
	for _, d := range All() {
		text, err := d.JSON()
		require.NoError(t, err)
		var made struct {
			UID    string
			Panels []struct {
				ID      int
				Title   string
				GridPos struct{ H, W, X, Y int }
			}
		}
		require.NoError(t, json.Unmarshal(text, &made))
		require.LessOrEqual(t, len(made.UID), 40, "Grafana's limit")
		taken := make(map[[2]int]string)
		ids := make(map[int]bool)
		for _, p := range made.Panels {
			require.False(t, ids[p.ID], "%s: two panels have the ID %d", d.Name, p.ID)
			ids[p.ID] = true
			require.LessOrEqual(t, p.GridPos.X+p.GridPos.W, columns, p.Title)
			for x := range p.GridPos.W {
				for y := range p.GridPos.H {
					at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
					require.Empty(t, taken[at], "%s: %s lies on it", d.Name, p.Title)
					taken[at] = p.Title
				}
			}
		}
	}
}

func TestPanelsShowOneUnitAndOneShape(t *testing.T) {
	for _, d := range All() {
		for _, p := range d.Panels() {
			for _, q := range p.Queries {
				require.Equal(t, p.Queries[0].Unit, q.Unit, "%s: %s", d.Name, p.Title)
				require.Equal(t, p.Queries[0].Shape, q.Shape, "%s: %s", d.Name, p.Title)
			}
			require.Equal(t, p.Kind == Heatmap, p.Queries[0].Shape == Buckets, p.Title)
			require.Equal(t, p.Kind == Table || p.Kind == Matrix, p.Queries[0].Shape == Cells, p.Title)
		}
	}
}

func TestAlertsSayWhatToDo(t *testing.T) {
	text, err := os.ReadFile("../../docs/howto/alerts.md")
	require.NoError(t, err)
	label := regexp.MustCompile(`\$labels\.(\w+)`)
	names := make(map[string]bool)
	for _, a := range Alerts() {
		require.False(t, names[a.Name], "two alerts %s", a.Name)
		names[a.Name] = true
		require.Contains(t, string(text), "\n### "+a.Section+"\n", a.Name)
		require.Contains(t, string(text), "`"+a.Name+"`", "the page names the alert")
		require.NotEmpty(t, a.Summary, a.Name)
		require.NotEmpty(t, a.Description, a.Name)
		require.Contains(t, []Severity{Critical, Warning, Info}, a.Severity)
		require.NotEmpty(t, a.proof.bad, "%s: no test shows that it fires", a.Name)
		require.NotEmpty(t, a.proof.good, "%s: no test shows that it does not", a.Name)
		for _, l := range label.FindAllStringSubmatch(a.Summary+a.Description, -1) {
			require.Contains(t, a.proof.labels, l[1], a.Name)
		}
		require.NotContains(t, a.proof.fill(a.Summary+a.Description), "{{", a.Name)
	}
	for _, named := range regexp.MustCompile("`(Lockkeeper[A-Z]\\w+)`").FindAllStringSubmatch(string(text), -1) {
		require.True(t, names[named[1]], "the page names %s, which there is not", named[1])
	}
}

func TestAlertsOfTheDocumentationAreThese(t *testing.T) {
	const name, begin, end = "../../docs/observability.md", "<!-- alerts: go test ./observability/dashboards -update -->\n", "<!-- end of alerts -->"
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	require.True(t, found)
	table, after, found := strings.Cut(rest, end)
	require.True(t, found)

	var want strings.Builder
	want.WriteString("\n|alert|severity|says|looks at|for|what to do|\n|---|---|---|---|---|---|\n")
	for _, a := range Alerts() {
		says := regexp.MustCompile(`\{\{ \$labels\.(\w+) \}\}`).ReplaceAllString(a.Summary, "`$1`")
		says = regexp.MustCompile(`\{\{ \$value[^}]*\}\}`).ReplaceAllString(says, "…")
		looks := "`" + strings.TrimSpace(a.Query.Name+" "+a.Is) + "`"
		if a.Window > 0 {
			looks += " in " + span(a.Window)
		}
		want.WriteString("|`" + a.Name + "`|" + string(a.Severity) + "|" + says + "|" + looks + "|" + span(a.For) + "|[" + a.Section + "](howto/alerts.md#" + anchor(a.Section) + ")|\n")
	}
	want.WriteString("\n")
	if *update {
		require.NoError(t, os.WriteFile(name, []byte(before+begin+want.String()+end+after), 0o644))
		return
	}
	require.Equal(t, want.String(), table, "go test ./observability/dashboards -update")
	for _, d := range All() {
		require.Contains(t, string(text), "`"+d.Name+"`")
	}
	require.True(t, slices.IsSortedFunc(Recordings(), func(a, b Recording) int { return strings.Compare(a.Name[:3], b.Name[:3]) }))
}
