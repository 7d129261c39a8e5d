package config

import (
	"net/http"
	"os/user"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func TestRequestGetsItsSettings(t *testing.T) {
	cfg := mustParse(t, job(`run:
  http: {url: "https://example.com/${A}", method: PUT, headers: {X-One: 1, X-Two: ""}, body: "{}", expect: [200, 204]}
  output: 2KiB
`))

	require.Equal(t, &jobs.HTTP{
		Body: []byte("{}"), Expect: []int{200, 204}, Header: http.Header{"X-One": {"1"}, "X-Two": {""}}, MaxOutput: 2048, Method: "PUT", URL: "https://example.com/alpha",
	}, cfg.Jobs[0].Work)
}

func TestCleanupIsOfEitherKind(t *testing.T) {
	undo := &jobs.HTTP{URL: "https://example.com/undo"}
	compact := &jobs.HTTP{URL: "https://example.com/compact"}
	command := func(argv ...string) *jobs.Command { return &jobs.Command{Argv: argv, CleanupTimeout: -1} }
	for run, want := range map[string]recipe{
		"{command: [x], cleanup: {http: {url: https://example.com/undo}}}":                             {cleanup: undo},
		"{command: [x], cleanup: {command: [y]}}":                                                      {cleanup: command("y")},
		"{command: [x], cleanup: [y]}":                                                                 {cleanup: command("y")},
		"{http: {url: https://example.com/compact}, cleanup: {http: {url: https://example.com/undo}}}": {main: compact, cleanup: undo},
		"{http: {url: https://example.com/compact}, cleanup: [y]}":                                     {main: compact, cleanup: command("y")},
	} {
		cfg := mustParse(t, job("run: "+run+"\nlocks: [{scope: s, cleanup_timeout: 1s}]"))
		got := cfg.recipes["a"]
		require.Equal(t, want.cleanup, got.cleanup, run)
		if want.main != nil {
			require.Equal(t, want.main, got.main, run)
		}
		require.Implements(t, (*jobs.Cleaner)(nil), cfg.Jobs[0].Work)
	}
}

func TestCommandOfAnotherUser(t *testing.T) {
	me, err := user.Current()
	require.NoError(t, err)

	command := mustParse(t, job("run: {command: [x], user: "+me.Username+", output: 1}")).Jobs[0].Work.(*jobs.Command)
	require.Equal(t, me.Username, command.User)
	require.Equal(t, 1, command.MaxOutput)

	_, problems, _ := parse(t, job("run: {command: [x], user: no-such-user-here}"))
	require.Len(t, problems, 1)
	require.True(t, strings.HasPrefix(problems[0], "4:31 jobs[a].run.user: "), problems[0])
}

func TestRunRules(t *testing.T) {
	const instead = "write one such as https://example.com/compact"
	for name, c := range map[string]struct{ text, want string }{
		"neither":               {job("run: {env: {A: b}}"), "4:10 jobs[a].run: command is missing; write {command: [/usr/bin/backup, --all]}, or {http: {url: ...}}"},
		"both":                  {job("run: {command: [x], http: {url: https://a}}"), `4:25 jobs[a].run.http: there is "command" beside it; remove one of them, or write two jobs`},
		"both, to clean up":     {job("run: {command: [x], cleanup: {command: [x], http: {url: https://a}}}\nlocks: [{scope: s}]"), `4:49 jobs[a].run.cleanup.http: there is "command" beside it; remove one of them`},
		"neither, to clean up":  {job("run: {command: [x], cleanup: {}}\nlocks: [{scope: s}]"), "4:34 jobs[a].run.cleanup: command is missing; write a command as a list, or {http: {url: ...}}"},
		"request without a url": {job("run: {http: {method: GET}}"), "4:17 jobs[a].run.http: url is missing; write it like {url: https://example.com/compact, method: POST}"},
		"url of a file":         {job("run: {http: {url: file:///etc}}"), `4:23 jobs[a].run.http.url: "file:///etc" is not of http or https; ` + instead},
		"method in small":       {job("run: {http: {url: https://a, method: put}}"), `4:42 jobs[a].run.http.method: "put" is not in capitals; write PUT`},
		"body of a GET":         {job("run: {http: {url: https://a, method: GET, body: x}}"), "4:53 jobs[a].run.http.body: a GET request has none; write another method, or leave the body out"},
		"status":                {job("run: {http: {url: https://a, expect: [99]}}"), "4:43 jobs[a].run.http.expect[0]: 99 is less than 200; write a status such as 204"},
		"no status":             {job("run: {http: {url: https://a, expect: []}}"), "4:42 jobs[a].run.http.expect: the list is empty; write [200, 204], or leave it out for 200 to 299"},
		"environment":           {job("run: {http: {url: https://a}, env: {A: b}}"), "4:35 jobs[a].run.env: env is for commands; remove it"},
		"request, nothing":      {job("run: {http: }"), "4:17 jobs[a].run.http: has no value; write it like {url: https://example.com/compact, method: POST}"},
		"size":                  {job("run: {command: [x], output: 64 bytes}"), `4:33 jobs[a].run.output: "64 bytes" is not a size; write a size such as 64KiB`},
		"size, nothing":         {job("run: {command: [x], output: 0}"), `4:33 jobs[a].run.output: "0" is nothing; write a size such as 64KiB, or leave it out`},
		"size, too much":        {job("run: {command: [x], output: 2GiB}"), `4:33 jobs[a].run.output: "2GiB" is too much; write 1024MiB or less`},
		"size, overflow":        {job("run: {command: [x], output: 99999999999999999999}"), `4:33 jobs[a].run.output: "99999999999999999999" is not a size; write a size such as 64KiB`},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, _ := parse(t, c.text)
			require.Equal(t, c.want, strings.Join(problems, "\n"), "%s", c.text)
		})
	}
	_, problems, _ := parse(t, job("run: {http: {method: put, headers: {X Y: z}, expect: [99, 204, 1000]}}"))
	require.Len(t, problems, 5, "what package jobs refuses is reported together with what cannot be read: %s", problems)
	_, problems, _ = parse(t, job("run: {http: {url: https://a, headers: {Lockkeeper-Token: 5}}}"))
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "4:44 jobs[a].run.http.headers[Lockkeeper-Token]: ")
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]int{"1": 1, "10B": 10, "64KiB": 65536, "64 KiB": 65536, "5kB": 5000, "5KB": 5000, "1MiB": 1 << 20, "1MB": 1e6, "1GiB": 1 << 30} {
		require.Equal(t, want, mustParse(t, job("run: {command: [x], output: "+text+"}")).Jobs[0].Work.(*jobs.Command).MaxOutput, text)
	}
}
