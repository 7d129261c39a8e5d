package dashboards

// A File is what operators import.
type File struct {
	Name  string // contention.json
	About string // a line for people
	Text  []byte
}

const (
	rulesFile = "rules.yaml"
	testsFile = "rules_test.yaml"
)

// Files returns all of them: the dashboards, the rules and their tests.
func Files() ([]File, error) {
	var all []File
	for _, d := range All() {
		text, err := d.JSON()
		if err != nil {
			return nil, err
		}
		all = append(all, File{Name: d.Name + ".json", About: "Grafana: " + d.Title, Text: text})
	}
	for _, f := range []struct {
		name, about string
		write       func() ([]byte, error)
	}{
		{rulesFile, "Prometheus: recording rules and alerts", Rules},
		{testsFile, "promtool: tests of the rules", RuleTests},
	} {
		text, err := f.write()
		if err != nil {
			return nil, err
		}
		all = append(all, File{Name: f.name, About: f.about, Text: text})
	}
	return all, nil
}
