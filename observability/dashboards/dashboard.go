package dashboards

import (
	"bytes"
	"encoding/json"
)

// A Dashboard is one page of Grafana.
type Dashboard struct {
	Name  string // of its file, without .json
	Title string
	About string // a sentence for people
	Rows  []Row

	// OneClass says that all of it is about the lock class that is chosen in its
	// variable $class.
	OneClass bool
}

// A Row is a heading and the panels below it.
type Row struct {
	Title  string
	Panels []Panel
}

// All returns the dashboards.
func All() []Dashboard {
	return []Dashboard{contention(), class(), preemption(), zookeeper(), jobs()}
}

// Panels returns the panels of all rows.
func (d Dashboard) Panels() (all []Panel) {
	for _, r := range d.Rows {
		all = append(all, r.Panels...)
	}
	return all
}

// Expr returns a query as this dashboard asks it, with Grafana's variables: $job
// (a pattern), $class in the dashboard of one class, $__rate_interval and $__range.
func (d Dashboard) Expr(q Query) string { return q.panel(d.OneClass) }

const (
	tag    = "lockkeeper"
	schema = 39 // Grafana 10; later ones convert it
)

// source is the data source that is chosen in the dashboard's variable.
func source() sourceJSON { return sourceJSON{Type: "prometheus", UID: "${datasource}"} }

// JSON returns the dashboard as Grafana imports it.
func (d Dashboard) JSON() ([]byte, error) {
	out := dashboardJSON{
		UID: "lockkeeper-" + d.Name, Title: "Lockkeeper / " + d.Title, Description: d.About, Tags: []string{tag},
		SchemaVersion: schema, Version: 1, Editable: true, GraphTooltip: 1, Refresh: "30s", Timezone: "browser",
		Time:        timeJSON{From: "now-1h", To: "now"},
		Templating:  variablesJSON{List: d.variables()},
		Annotations: annotationsJSON{List: []any{}},
		Links: []linkJSON{{
			Title: "Lockkeeper", Type: "dashboards", Tags: []string{tag}, AsDropdown: true, IncludeVars: true, KeepTime: true,
			Icon: "external link",
		}},
		Panels: d.layout(),
	}
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(out); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

func (d Dashboard) variables() []variableJSON {
	from := source()
	labelValues := func(name, label, definition string) variableJSON {
		return variableJSON{
			Name: name, Label: label, Type: "query", Datasource: &from, Definition: definition,
			Query:   labelValuesJSON{Query: definition, RefID: "PrometheusVariableQueryEditor-VariableQuery"},
			Refresh: 2, Sort: 1, Current: map[string]any{}, Options: []any{},
		}
	}
	job := labelValues("job", "Job of Prometheus", `label_values({__name__=~"lockkeeper_.+"}, job)`)
	job.Multi, job.IncludeAll, job.AllValue = true, true, ".+"
	job.Current = map[string]any{"selected": true, "text": []string{"All"}, "value": []string{"$__all"}}
	all := []variableJSON{
		{
			Name: "datasource", Label: "Data source", Type: "datasource", Query: "prometheus", Refresh: 1,
			Current: map[string]any{}, Options: []any{},
		},
		job,
	}
	if d.OneClass {
		all = append(all, labelValues("class", "Lock class",
			`label_values(lockkeeper_lock_wait_duration_seconds_count{job=~"$job"}, lock_class)`))
	}
	return all
}

// columns is the width of Grafana's grid.
const columns = 24

// layout places panels from left to right, each row below the one before.
func (d Dashboard) layout() []panelJSON {
	var all []panelJSON
	id, y := 0, 0
	add := func(p panelJSON) {
		id++
		p.ID = id
		all = append(all, p)
	}
	for _, r := range d.Rows {
		closed := false
		add(panelJSON{
			Type: "row", Title: r.Title, GridPos: gridJSON{H: 1, W: columns, Y: y}, Collapsed: &closed, Panels: &[]panelJSON{},
		})
		y++
		x, lowest := 0, y
		for _, p := range r.Panels {
			width, height := p.size()
			if x+width > columns {
				x, y = 0, lowest
			}
			made := d.panel(p)
			made.GridPos = gridJSON{H: height, W: width, X: x, Y: y}
			add(made)
			x += width
			lowest = max(lowest, y+height)
		}
		y = lowest
	}
	return all
}
