package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/temporal"
)

const workflow = "{temporal: {workflow: Rebalance, task_queue: orders}}"

func TestWorkflowGetsItsSettings(t *testing.T) {
	cfg := mustParse(t, "temporal: {address: \"t:7233\", namespace: \"${A}\", identity: me}\n"+job(`run:
  temporal: {workflow: Rebalance, task_queue: orders, args: [users, 5, 1.5, true, ~, "5", {a: [b, "${A}"]}], wait: true, terminate: true,
    cancel_timeout: 5s, run_timeout: 1m, execution_timeout: 1h, id_prefix: x-}
`))
	defer cfg.Close()

	got := *cfg.Jobs[0].Work.(*temporal.StartWorkflow)
	require.NotNil(t, got.Client)
	got.Client = nil
	require.Equal(t, temporal.StartWorkflow{
		Args:          []any{"users", int64(5), 1.5, true, nil, "5", map[string]any{"a": []any{"b", "alpha"}}},
		CancelTimeout: 5 * time.Second, ExecutionTimeout: time.Hour, IDPrefix: "x-", RunTimeout: time.Minute, TaskQueue: "orders",
		Terminate: true, Wait: true, Workflow: "Rebalance",
	}, got)
	require.Equal(t, temporal.Options{Address: "t:7233", Namespace: "alpha", Identity: "me"}, cfg.Temporal)
}

func TestWorkflowRules(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":            {job("run: {temporal: {}}"), "4:21 jobs[a].run.temporal: workflow is missing; write its type, for example Rebalance\n4:21 jobs[a].run.temporal: task_queue is missing; write where its workers listen, for example orders"},
		"patience alone":     {job("run: {temporal: {workflow: W, task_queue: q, cancel_timeout: 5s}}"), "4:66 jobs[a].run.temporal.cancel_timeout: has no meaning without wait; write wait: true, or leave it out"},
		"timeouts":           {job("run: {temporal: {workflow: W, task_queue: q, run_timeout: 2h, execution_timeout: 1h}}"), "4:63 jobs[a].run.temporal.run_timeout: run_timeout (2h0m0s) is longer than execution_timeout (1h0m0s); shorten the one or lengthen the other"},
		"directory":          {job("run: {temporal: {workflow: W, task_queue: q}, dir: /, output: 1}"), "4:51 jobs[a].run.dir: dir is for commands; remove it\n4:59 jobs[a].run.output: output is for commands and requests; remove it"},
		"address":            {"temporal: {address: here}\n" + job("run: [x]"), `1:21 temporal.address: "here" is no host and port; write them such as temporal.example.com:7233`},
		"key in the clear":   {"temporal: {api_key_file: zookeeper.digest}\n" + job("run: [x]"), "1:26 temporal.api_key_file: the key would be sent in the clear; write tls, too"},
		"key that is absent": {"temporal: {api_key_file: nothing}\n" + job("run: [x]"), `1:26 temporal.api_key_file: "testdata/nothing" cannot be read: no such file or directory; name a file that this user can read`},
		"half of a pair":     {"temporal: {tls: {cert_file: zookeeper.digest}}\n" + job("run: [x]"), "1:29 temporal.tls.cert_file: key_file is missing beside it; name the file with the private key as well"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, _ := parse(t, c.text)
			require.Equal(t, c.want, strings.Join(problems, "\n"), "%s", c.text)
		})
	}
}

// A connection of its own for each of a thousand files would be a leak.
func TestReloadsShareTheClientOfTheirWorkflows(t *testing.T) {
	text := func(i int) string {
		return fmt.Sprintf("version: 1\njobs:\n  a: {schedule: '@every %dm', run: [x]}\n  b: {schedule: '@daily', run: %s}\n", i, workflow)
	}
	r := reload(t, text(1))
	first := r.Config()
	t.Cleanup(first.Close)

	for i := range 3 {
		replace(t, r.file, text(i+2))
		r.wait(reloaded, i+1)
		require.Equal(t, []JobChange{{Name: "a", Fields: []Change{
			{Field: "schedule", From: fmt.Sprintf("\"@every %dm\"", i+1), To: fmt.Sprintf("\"@every %dm\"", i+2)},
		}}}, (<-r.applied).Changed)
		require.Same(t, first.client, r.Config().client)
		require.Same(t, first.client, r.Config().Jobs[1].Work.(*temporal.StartWorkflow).Client)
	}

	replace(t, r.file, text(9)+"temporal: {address: \"elsewhere:7233\"}\n")
	r.wait(refused, 1)
	require.ErrorContains(t, r.Status().Err, "temporal.address (nothing → elsewhere:7233) cannot change while the daemon runs")
	require.Same(t, first.client, r.Config().client)
}
