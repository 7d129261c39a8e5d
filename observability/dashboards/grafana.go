package dashboards

// What follows is the part of Grafana's dashboard schema, version 1, that is used
// here. It is the form that the most versions of Grafana read; newer ones convert
// it when they import it.
type (
	dashboardJSON struct {
		ID            *int            `json:"id"` // null: Grafana gives it one
		UID           string          `json:"uid"`
		Title         string          `json:"title"`
		Description   string          `json:"description"`
		Tags          []string        `json:"tags"`
		SchemaVersion int             `json:"schemaVersion"`
		Version       int             `json:"version"`
		Editable      bool            `json:"editable"`
		GraphTooltip  int             `json:"graphTooltip"` // 1: one crosshair in all panels
		Refresh       string          `json:"refresh"`
		Timezone      string          `json:"timezone"`
		Time          timeJSON        `json:"time"`
		Templating    variablesJSON   `json:"templating"`
		Annotations   annotationsJSON `json:"annotations"`
		Links         []linkJSON      `json:"links"`
		Panels        []panelJSON     `json:"panels"`
	}

	timeJSON struct {
		From string `json:"from"`
		To   string `json:"to"`
	}

	variablesJSON struct {
		List []variableJSON `json:"list"`
	}

	variableJSON struct {
		Name       string         `json:"name"`
		Label      string         `json:"label"`
		Type       string         `json:"type"`
		Datasource *sourceJSON    `json:"datasource,omitempty"`
		Query      any            `json:"query"`
		Definition string         `json:"definition,omitempty"`
		Regex      string         `json:"regex"`
		Refresh    int            `json:"refresh"` // 1: when the dashboard is loaded, 2: when the time changes
		Sort       int            `json:"sort,omitempty"`
		Hide       int            `json:"hide"`
		Multi      bool           `json:"multi"`
		IncludeAll bool           `json:"includeAll"`
		AllValue   string         `json:"allValue,omitempty"`
		Current    map[string]any `json:"current"`
		Options    []any          `json:"options"`
	}

	labelValuesJSON struct {
		Query string `json:"query"`
		RefID string `json:"refId"`
	}

	annotationsJSON struct {
		List []any `json:"list"`
	}

	linkJSON struct {
		Title       string   `json:"title"`
		Type        string   `json:"type"`
		Tags        []string `json:"tags"`
		AsDropdown  bool     `json:"asDropdown"`
		IncludeVars bool     `json:"includeVars"`
		KeepTime    bool     `json:"keepTime"`
		TargetBlank bool     `json:"targetBlank"`
		Icon        string   `json:"icon"`
		Tooltip     string   `json:"tooltip"`
		URL         string   `json:"url"`
	}

	sourceJSON struct {
		Type string `json:"type"`
		UID  string `json:"uid"`
	}

	panelJSON struct {
		ID              int             `json:"id"`
		Type            string          `json:"type"`
		Title           string          `json:"title"`
		Description     string          `json:"description,omitempty"`
		GridPos         gridJSON        `json:"gridPos"`
		Datasource      *sourceJSON     `json:"datasource,omitempty"`
		Targets         []targetJSON    `json:"targets,omitempty"`
		FieldConfig     *fieldsJSON     `json:"fieldConfig,omitempty"`
		Options         map[string]any  `json:"options,omitempty"`
		Transformations []transformJSON `json:"transformations,omitempty"`
		Collapsed       *bool           `json:"collapsed,omitempty"` // of rows
		Panels          *[]panelJSON    `json:"panels,omitempty"`    // of rows
	}

	gridJSON struct {
		H int `json:"h"`
		W int `json:"w"`
		X int `json:"x"`
		Y int `json:"y"`
	}

	targetJSON struct {
		RefID        string     `json:"refId"`
		Datasource   sourceJSON `json:"datasource"`
		EditorMode   string     `json:"editorMode"`
		Expr         string     `json:"expr"`
		LegendFormat string     `json:"legendFormat"`
		Format       string     `json:"format"`
		Range        bool       `json:"range"`
		Instant      bool       `json:"instant"`
		Exemplar     bool       `json:"exemplar"`
	}

	fieldsJSON struct {
		Defaults  fieldJSON `json:"defaults"`
		Overrides []any     `json:"overrides"`
	}

	fieldJSON struct {
		Unit       Unit           `json:"unit"`
		Min        *float64       `json:"min,omitempty"`
		Max        *float64       `json:"max,omitempty"`
		NoValue    string         `json:"noValue,omitempty"`
		Color      map[string]any `json:"color"`
		Thresholds thresholdsJSON `json:"thresholds"`
		Mappings   []mappingJSON  `json:"mappings"`
		Custom     map[string]any `json:"custom,omitempty"`
	}

	thresholdsJSON struct {
		Mode  string     `json:"mode"`
		Steps []stepJSON `json:"steps"`
	}

	stepJSON struct {
		Color string   `json:"color"`
		Value *float64 `json:"value"` // null: from the bottom
	}

	mappingJSON struct {
		Type    string                `json:"type"`
		Options map[string]mappedJSON `json:"options"`
	}

	mappedJSON struct {
		Text  string `json:"text"`
		Color string `json:"color"`
		Index int    `json:"index"`
	}

	transformJSON struct {
		ID      string         `json:"id"`
		Options map[string]any `json:"options"`
	}
)
