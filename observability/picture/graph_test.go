package picture_test

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/observability/live"
	"github.com/lockkeeper/lockkeeper/observability/picture"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/inspect"
)

// queue adds a lock with its holder and those who wait, the first of them first.
func queue(g *live.Graph, scope, holder string, waiters ...string) {
	id := func(owner string) string { return owner + "@" + scope }
	node := func(owner, state string) {
		g.Nodes = append(g.Nodes, live.GraphNode{ID: id(owner), Label: owner, Owner: owner, Scope: scope, State: state})
	}
	node(holder, "holds")
	for i, w := range waiters {
		node(w, "waits")
		g.Edges = append(g.Edges, live.GraphEdge{From: id(w), To: id(holder), Why: inspect.WaitHeld})
		if i > 0 {
			g.Edges = append(g.Edges, live.GraphEdge{From: id(w), To: id(waiters[i-1]), Why: inspect.WaitAhead})
		}
	}
}

// work says that who holds one lock waits for another one.
func work(g *live.Graph, owner, holds, wants string) {
	g.Edges = append(g.Edges, live.GraphEdge{From: owner + "@" + holds, To: owner + "@" + wants, Why: inspect.WaitUnder})
}

// traffic is a jam over several locks, with a deadlock in it.
func traffic() live.Graph {
	var g live.Graph
	queue(&g, "cluster/orders", "compact", "backup", "report", "hotfix", "audit", "export", "vacuum", "stats", "rollup")
	queue(&g, "cluster/users", "backup", "sync", "merge")
	queue(&g, "cluster/stock", "import", "export <b>&amp;</b>")
	queue(&g, "shop/prices", "alpha", "beta", "gamma")
	queue(&g, "shop/taxes", "beta", "alpha")
	work(&g, "backup", "cluster/users", "cluster/orders")
	work(&g, "alpha", "shop/prices", "shop/taxes")
	work(&g, "beta", "shop/taxes", "shop/prices")
	g.Circles = [][]string{{"beta@shop/prices", "alpha@shop/prices", "alpha@shop/taxes", "beta@shop/taxes"}}
	for i, e := range g.Edges {
		for j, id := range g.Circles[0] {
			g.Edges[i].Deadlock = g.Edges[i].Deadlock || e.From == id && e.To == g.Circles[0][(j+1)%4]
		}
	}
	g.Nodes = append(g.Nodes, live.GraphNode{ID: "alone", Label: "alone", Scope: "idle", State: "holds"})
	g.Hidden = 7
	return g
}

func drawnGraph(t *testing.T, g live.Graph, o picture.Options) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, picture.GraphSVG(&b, g, o))
	return b.String()
}

func TestGraph(t *testing.T) {
	golden(t, "graph.svg", []byte(drawnGraph(t, traffic(), picture.Options{Standalone: true})))
}

func TestGraphWithoutARequestThat(t *testing.T) {
	require.Contains(t, drawnGraph(t, live.Graph{}, picture.Options{}), "No request waits for another.")
}

func TestCirclesAreSaidInWordsAndMarkedByASign(t *testing.T) {
	svg := drawnGraph(t, traffic(), picture.Options{})
	require.Contains(t, svg, "Deadlock: alpha holds shop/prices and waits for shop/taxes → beta holds shop/taxes and waits for")
	require.Equal(t, 4, strings.Count(svg, `class="lk-alarm lk-node-alarm"`), "each of them is marked")
	require.GreaterOrEqual(t, strings.Count(svg, ">!</text>"), 5)

	g := traffic()
	for i := range g.Edges {
		g.Edges[i].Deadlock = false
	}
	require.Contains(t, drawnGraph(t, g, picture.Options{}), "Cycle, which a priority ends: ")
}

func TestGraphOfHundredsIsBoundedAndSaysWhatIsLeftOut(t *testing.T) {
	var g live.Graph
	for i := range 100 {
		var waiters []string
		for w := range 10 {
			waiters = append(waiters, fmt.Sprintf("job %d of %d", w, i))
		}
		queue(&g, fmt.Sprintf("lock/%d", i), fmt.Sprintf("holder %d", i), waiters...)
	}
	svg := drawnGraph(t, g, picture.Options{})
	require.Less(t, len(svg), 150_000)
	require.Contains(t, svg, "and 6 more")
	drawn := strings.Count(svg, `class="lk-row"`)
	require.LessOrEqual(t, drawn, 60+60/5)
	require.Regexp(t, `and \d{3} more requests that are not drawn`, svg)
}

func heat() live.Heat {
	h := live.Heat{From: noon, Slice: priority.Millis(time.Minute)}
	for i, scope := range []string{"shop/orders", "shop/prices", "cluster/orders/resource/users/with/a/long/name", "tiny", ""} {
		r := live.HeatRow{Scope: scope}
		for c := range 60 {
			d := time.Duration(math.Abs(math.Sin(float64(c)/float64(4+3*i)))*120/float64(1+i*i)) * time.Second
			if c%(3+i) == 0 {
				d = 0
			}
			r.Waited = append(r.Waited, priority.Millis(d))
		}
		h.Rows = append(h.Rows, r)
	}
	h.Rows[3].Waited = make([]priority.Millis, 60)
	h.Rows[3].Waited[31] = priority.Millis(40 * time.Millisecond)
	return h
}

func TestHeat(t *testing.T) {
	var b bytes.Buffer
	require.NoError(t, picture.HeatSVG(&b, heat(), picture.Options{Standalone: true}))
	golden(t, "heat.svg", b.Bytes())
	b.Reset()
	short := heat()
	for i := range short.Rows {
		short.Rows[i].Waited = short.Rows[i].Waited[:12]
	}
	require.NoError(t, picture.HeatSVG(&b, short, picture.Options{Standalone: true}))
	golden(t, "heat.short.svg", b.Bytes())
}

func TestHeatIsBounded(t *testing.T) {
	h := live.Heat{From: noon, Slice: priority.Millis(time.Second)}
	for i := range 500 {
		r := live.HeatRow{Scope: fmt.Sprintf("lock/%d", i)}
		for c := range 500 {
			r.Waited = append(r.Waited, priority.Millis(1+(c*7+i)%50)*priority.Millis(time.Second))
		}
		h.Rows = append(h.Rows, r)
	}
	var b bytes.Buffer
	require.NoError(t, picture.HeatSVG(&b, h, picture.Options{}))
	require.Less(t, b.Len(), 600_000)
	require.Contains(t, b.String(), "and 460 more locks")
	require.Contains(t, b.String(), "a cell is 6s", "slices are added up")
}

func TestTimeThatWasNotWatchedIsNotTimeWithoutWaits(t *testing.T) {
	drawn := func(h live.Heat) string {
		var b bytes.Buffer
		require.NoError(t, picture.HeatSVG(&b, h, picture.Options{}))
		return b.String()
	}
	h := heat()
	require.NotContains(t, drawn(h), "not watched")
	h.Known = h.From.Add(17 * time.Minute)
	require.Contains(t, drawn(h), ">not watched</text>")
	require.Contains(t, drawn(h), "Not watched before 12:17:00.000 UTC.")
	require.Equal(t, 5, strings.Count(drawn(h), "<title>not watched before 12:17"), "one in each row")
}

func TestLocksWhoseNamesBeginAlikeDoNotLookAlike(t *testing.T) {
	h := live.Heat{From: noon, Slice: priority.Millis(time.Minute)}
	for i := range 3 {
		h.Rows = append(h.Rows, live.HeatRow{Scope: fmt.Sprintf("cluster/eu-central-1/resource/table-%04d", i), Waited: []priority.Millis{priority.Millis(time.Second)}})
	}
	var b bytes.Buffer
	require.NoError(t, picture.HeatSVG(&b, h, picture.Options{Width: 336}))
	for i := range 3 {
		require.Regexp(t, fmt.Sprintf(`>clu[^<]*…[^<]*-%04d</text>`, i), b.String())
	}
}
