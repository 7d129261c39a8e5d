package dashboards

import (
	"maps"
	"strconv"
	"strings"
)

// A Panel shows the answers to queries of one shape and unit.
type Panel struct {
	Title   string
	Queries []Query
	Kind    Kind

	wide    bool              // the whole width
	narrow  bool              // a third of it
	stacked bool              // lines on top of each other
	limits  []float64         // from the first on it is orange, from the second on red
	below   bool              // the limits are lower ones
	states  map[string]mapped // what values are called
	matrix  [2]string         // the labels of its rows and columns
	noValue string            // shown when there is nothing
}

type mapped struct{ text, color string }

// A Kind is a type of panel, as Grafana calls it.
type Kind string

// The kinds in use.
const (
	Timeseries    Kind = "timeseries"
	Stat          Kind = "stat"
	Heatmap       Kind = "heatmap"
	Table         Kind = "table"
	Matrix        Kind = "matrix" // a table of two labels
	StateTimeline Kind = "state-timeline"
)

func (p Panel) size() (width, height int) {
	switch {
	case p.Kind == Stat:
		return columns / 6, 4
	case p.wide:
		return columns, 9
	case p.narrow:
		return columns / 3, 8
	}
	return columns / 2, 8
}

// panel returns the panel as it is asked on the dashboard, not placed yet.
func (d Dashboard) panel(p Panel) panelJSON {
	from := source()
	out := panelJSON{
		Type: string(p.Kind), Title: p.Title, Description: p.about(), Datasource: &from,
		FieldConfig: &fieldsJSON{Defaults: p.field(), Overrides: []any{}}, Options: p.options(),
	}
	for i, q := range p.Queries {
		target := targetJSON{
			RefID: string(rune('A' + i)), Datasource: from, EditorMode: "code", Expr: d.Expr(q), LegendFormat: q.Legend,
			Format: "time_series", Range: true, Exemplar: q.exemplars() && p.Kind != Stat,
		}
		switch q.Shape {
		case Buckets:
			target.Format, target.LegendFormat = "heatmap", "{{le}}"
		case Cells:
			target.Format, target.Range, target.Instant = "table", false, true
		case Lines:
		}
		out.Targets = append(out.Targets, target)
	}
	switch p.Kind {
	case Matrix:
		out.Type = string(Table)
		out.Transformations = []transformJSON{{ID: "groupingToMatrix", Options: map[string]any{
			"rowField": p.matrix[0], "columnField": p.matrix[1], "valueField": "Value",
		}}}
	case Table:
		out.Transformations = []transformJSON{{ID: "organize", Options: map[string]any{
			"excludeByName": map[string]bool{"Time": true, "Value": true, "__name__": true}, "indexByName": map[string]int{},
			"renameByName": map[string]string{},
		}}}
	case Timeseries, Stat, Heatmap, StateTimeline:
	}
	return out
}

// about is what all of the queries mean, each said once.
func (p Panel) about() string {
	var said []string
	for _, q := range p.Queries {
		if len(said) == 0 || said[len(said)-1] != q.Means {
			said = append(said, q.Means)
		}
	}
	return strings.Join(said, " ")
}

// exemplars tells whether the query is about buckets, which have traces beside
// them.
func (q Query) exemplars() bool { return strings.Contains(q.text, "_bucket{") }

func (p Panel) field() fieldJSON {
	zero := 0.0
	f := fieldJSON{
		Unit: p.Queries[0].Unit, Min: &zero, NoValue: p.noValue,
		Color:      map[string]any{"mode": "palette-classic"},
		Thresholds: p.thresholds(), Mappings: []mappingJSON{},
	}
	switch p.Kind {
	case Timeseries:
		f.Custom = map[string]any{
			"drawStyle": "line", "lineInterpolation": "linear", "lineWidth": 1, "fillOpacity": 10, "showPoints": "never",
			"spanNulls": false,
			"stacking":  map[string]any{"mode": "none", "group": "A"}, "thresholdsStyle": map[string]any{"mode": "off"},
		}
		if p.stacked {
			maps.Copy(f.Custom, map[string]any{"fillOpacity": 40, "stacking": map[string]any{"mode": "normal", "group": "A"}})
		}
		if len(p.limits) > 0 {
			f.Custom["thresholdsStyle"] = map[string]any{"mode": "line"}
		}
	case Stat, StateTimeline:
		f.Color = map[string]any{"mode": "thresholds"}
	case Heatmap, Table, Matrix:
	}
	if len(p.states) > 0 {
		options := make(map[string]mappedJSON)
		for value, state := range p.states {
			index, _ := strconv.Atoi(value)
			options[value] = mappedJSON{Text: state.text, Color: state.color, Index: index}
		}
		f.Mappings = append(f.Mappings, mappingJSON{Type: "value", Options: options})
	}
	return f
}

func (p Panel) thresholds() thresholdsJSON {
	colors := []string{"green", "orange", "red"}
	if p.below {
		colors = []string{"red", "orange", "green"}
	}
	if len(p.limits) == 1 {
		colors = []string{colors[0], colors[2]}
	}
	steps := []stepJSON{{Color: colors[0]}}
	for i, limit := range p.limits {
		steps = append(steps, stepJSON{Color: colors[i+1], Value: &limit})
	}
	return thresholdsJSON{Mode: "absolute", Steps: steps}
}

func (p Panel) options() map[string]any {
	switch p.Kind {
	case Timeseries:
		return map[string]any{
			"legend": map[string]any{
				"showLegend": true, "displayMode": "table", "placement": "bottom", "calcs": []string{"lastNotNull", "max"},
			},
			"tooltip": map[string]any{"mode": "multi", "sort": "desc"},
		}
	case Stat:
		return map[string]any{
			"reduceOptions": map[string]any{"calcs": []string{"lastNotNull"}, "fields": "", "values": false},
			"colorMode":     "value", "graphMode": "area", "textMode": "auto", "justifyMode": "auto", "orientation": "auto",
		}
	case Heatmap:
		return map[string]any{
			"calculate": false,
			"cellGap":   1,
			"color": map[string]any{
				"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5, "fill": "dark-orange", "reverse": false,
			},
			"exemplars":    map[string]any{"color": "rgba(255,0,255,0.7)"},
			"filterValues": map[string]any{"le": 1e-9},
			"legend":       map[string]any{"show": true},
			"rowsFrame":    map[string]any{"layout": "auto"},
			"tooltip":      map[string]any{"show": true, "yHistogram": false},
			"yAxis":        map[string]any{"axisPlacement": "left", "reverse": false, "unit": string(p.Queries[0].Unit)},
		}
	case StateTimeline:
		return map[string]any{
			"alignValue": "left", "mergeValues": true, "rowHeight": 0.9, "showValue": "auto",
			"legend":  map[string]any{"showLegend": true, "displayMode": "list", "placement": "bottom"},
			"tooltip": map[string]any{"mode": "single", "sort": "none"},
		}
	case Table, Matrix:
		return map[string]any{"showHeader": true, "cellHeight": "sm"}
	}
	return nil
}
