package config

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSyntaxErrorsSayWhereAndWhatToDo(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"cron expression without quotes":     {job("schedule: * * * * *"), `4:15 not YAML: a value that starts with * is an alias; write "* * * * *"`},
		"cron expression with a step":        {job("schedule: */5 * * * *   # often"), `4:15 not YAML: a value that starts with * is an alias; write "*/5 * * * *"`},
		"interval without quotes":            {job("schedule: @every 5m # x"), `4:15 not YAML: a value cannot start with @; write "@every 5m"`},
		"tab":                                {"version: 1\njobs:\n\ta: {}\n", "3:1 not YAML: a tab cannot indent; write spaces"},
		"list not closed":                    {job("run: [x"), `4:10 not YAML: what opens here is not closed, as seen at 5:13; write "]" at its end`},
		"wrong value in a list of lines":     {job("run: [\n  x,\n  @y,\n]"), `6:7 not YAML: a value cannot start with @; write "@y,"`},
		"list not closed at the end":         {"version: 1\njobs: [", `2:7 not YAML: what opens here is not closed, as seen at 3:1; write "]" at its end`},
		"mapping not closed":                 {job("run: {command: [x]"), `4:10 not YAML: what opens here is not closed, as seen at 5:5; write "}" at its end`},
		"variable in a mapping":              {job("run: {command: [x], dir: ${A}}"), "4:10 not YAML: what opens here is not closed, as seen at 4:31; write ${...} inside of [ ] and { } in quotes"},
		"quotes not closed":                  {job("schedule: \"@daily"), "4:15 not YAML: the quotes that open here are not closed; close them"},
		"quotes closed by those of the next": {job("timezone: \"UTC\nschedule: \"@daily\""), "4:15 not YAML: the quotes that open here are closed only at 5:15; close them on the same line"},
		"single quotes":                      {job("timezone: 'UTC\nschedule: '@daily'"), "4:15 not YAML: the quotes that open here are closed only at 5:15; close them on the same line"},
		"value with a colon":                 {job("run: a: b"), `4:11 not YAML: unexpected ":"; check the indentation and the line above; a value that contains ": " needs quotes`},
		"list in the line of its key":        {job("run: - a"), `4:10 not YAML: unexpected "-"; start the list on a line of its own`},
		"wrong indentation":                  {"version: 1\njobs:\n  a:\n    run: [x]\n   timeout: 5s\n", "5:4 not YAML: this does not continue what stands above; check the indentation and the quotes"},
		"no anchor":                          {job("run: *x"), `4:10 no anchor "&x" stands before this alias; define it above, or put the value in quotes`},
		"two documents":                      {job("") + "---\nversion: 1\n", "7:1 a second document starts here; keep one document in a file"},
		"two documents, the second broken":   {job("") + "---\n]\n", "7:1 a second document starts here; keep one document in a file\n8:1 not YAML: did not find expected node content; check the indentation and the quotes"},
		"too deep":                           {"version: " + strings.Repeat("[", 100), "1:74 nested deeper than 64 levels; write it flatter"},
		"control character":                  {"version: 1\njobs: \x1b[31m\n", `2:7 control character U+001B; remove it, or write it as an escape such as "\x1b" in double quotes`},
		"another encoding":                   {"version: 1\n# \xe4\n", "2:3 this is not UTF-8; save the file as UTF-8"},
		"UTF-16":                             {"\xff\xfev\x00", "1:1 this is not UTF-8; save the file as UTF-8"},
		"columns count characters":           {"version: 1\n\"äöü\": x: y\n", `2:9 not YAML: unexpected ":"; check the indentation and the line above; a value that contains ": " needs quotes`},
		"windows line ends":                  {"version: 1\r\njobs:\r\n  a:\r\n    run: @x\r\n    timeout: 5s\r\n", `4:10 not YAML: a value cannot start with @; write "@x"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, _ := parse(t, c.text)
			require.Equal(t, c.want, strings.Join(problems, "\n"), "%s", c.text)
		})
	}
}

func TestTheRestIsCheckedAfterASyntaxError(t *testing.T) {
	_, problems, _ := parse(t, `version: 1
zookeeper: {root: lk}
scopes:
  orders: {owner: [x}
jobs:
  first: {schedule: "@daily", run: [x], timeuot: 5s}
  second:
    schedule: @daily
    run: nonsense
  third:
    schedule: "@daily"
    run: [x]
    locks: [{scope: users}]
  fourth: {schedule: "@daily", run: [x], timeuot: 5s}
  fifth:
	schedule: "@daily"
  sixth: {schedule: "@daily", run: [x], timeuot: 5s}
`)
	require.Equal(t, []string{
		`2:19 zookeeper.root: lk does not begin with /; write an absolute path such as /lockkeeper`,
		`4:19 not YAML: what opens here is not closed, as seen at 4:21; write "]" at its end`,
		`6:41 jobs[first]: unknown field "timeuot"; did you mean "timeout"?`,
		`8:15 not YAML: a value cannot start with @; write "@daily"`,
		`14:42 jobs[fourth]: unknown field "timeuot"; did you mean "timeout"?`,
		`16:1 not YAML: a tab cannot indent; write spaces`,
		`17:41 jobs[sixth]: unknown field "timeuot"; did you mean "timeout"?`,
	}, problems, "the scope of the third may stand in what could not be read")
}

func TestNothingIsCalledMissingAfterASyntaxError(t *testing.T) {
	_, problems, _ := parse(t, "version: 1\njobs: [\n")
	require.Len(t, problems, 1)
	_, problems, _ = parse(t, "version 1\njobs:\n  a: {run: &x [x]}\n  b: @\n  c: {run: *x}\n")
	require.Len(t, problems, 1)
	_, problems, _ = parse(t, "version: 1\njobs:\n  a: {run: &x [x], timeout: @}\n  c: {run: *x}\n")
	require.Len(t, problems, 1, "the anchor stands in what could not be read")
}

func TestOnlyAFewSyntaxErrorsAreLookedFor(t *testing.T) {
	_, problems, _ := parse(t, "version: 1\njobs:\n"+strings.Repeat("  a: @x\n", 100))
	require.Len(t, problems, maxTears)
}
