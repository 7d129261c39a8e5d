package config

import (
	"reflect"
	"strconv"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/temporal"
)

var temporalShape = shape{
	name:    "temporal",
	example: "write it like {address: temporal.example.com:7233, namespace: orders}",
	keys: []key{
		to("address", text("write host:port, for example localhost:7233"), temporal.DefaultAddress,
			"The frontend of the server, host:port.", func(c *Config) *string { return &c.Temporal.Address }),
		to("namespace", text("write the name of a namespace"), "default",
			"The namespace that workflows are started in.", func(c *Config) *string { return &c.Temporal.Namespace }),
		to("identity", text("write a name for people"), "pid@host", "What the server knows the daemon by.",
			func(c *Config) *string { return &c.Temporal.Identity }),
		to("api_key_file", aSecretFile, "",
			"A file with the key that proves who the daemon is, as Temporal Cloud wants it; it needs tls.",
			func(c *Config) *string { return &c.Temporal.APIKeyFile }),
		compared(apart("tls", like(&temporalTLSShape), "",
			"TLS to the server; {} trusts the certificate authorities of the system."),
			func(c *Config) *temporal.TLS { return c.Temporal.TLS }, nil),
		compared(by("schedules", oneOf(aBoolean, like(&schedulesShape)), "false", "Jobs that start workflows become "+
			"schedules of the server, which starts them itself; the workflow takes the locks, in workers with the plugin.",
			(*reader).temporalSchedules),
			func(c *Config) TemporalSchedules { return c.TemporalSchedules }, nil),
	},
	hints: map[string]string{
		"host": `did you mean "address"?`, "hostport": `did you mean "address"?`,
		"api_key":    "put it into a file and name that: api_key_file: FILE",
		"workflow":   "it belongs to a job: run: {temporal: {workflow: ...}}",
		"task_queue": "it belongs to a job: run: {temporal: {task_queue: ...}}",
	},
}

var temporalTLSShape = shape{
	name:    "temporal.tls",
	example: tlsShape.example,
	keys:    tlsShape.keys,
	hints:   tlsShape.hints,
}

const (
	workflowExample = "write its type, for example Rebalance"
	queueExample    = "write where its workers listen, for example orders"
)

var workflowShape = shape{
	name:    "run.temporal",
	example: "write it like {workflow: Rebalance, task_queue: orders}",
	keys: []key{
		needed(to("workflow", text(workflowExample), "", "The type of the workflow.",
			func(w *temporal.StartWorkflow) *string { return &w.Workflow }), workflowExample),
		needed(to("task_queue", text(queueExample), "", "Where its workers listen.",
			func(w *temporal.StartWorkflow) *string { return &w.TaskQueue }), queueExample),
		by("args", listOf(kind{what: "anything", scalar: ofAnything}), "", "What it is given.", (*reader).workflowArgs),
		to("wait", yesOrNo, false, "The run lasts as long as the workflow, not only until it is started.",
			func(w *temporal.StartWorkflow) *bool { return &w.Wait }),
		to("terminate", yesOrNo, false, "With wait: ends a workflow that does not end when it is cancelled.",
			func(w *temporal.StartWorkflow) *bool { return &w.Terminate }),
		to("cancel_timeout", positive, words.Duration(temporal.DefaultCancelTimeout),
			"With wait: how long the workflow has from the request to cancel it.",
			func(w *temporal.StartWorkflow) *time.Duration { return &w.CancelTimeout }),
		to("execution_timeout", positive, "", "Bounds the workflow with all its retries and continuations.",
			func(w *temporal.StartWorkflow) *time.Duration { return &w.ExecutionTimeout }),
		to("run_timeout", positive, "", "Bounds each of these.",
			func(w *temporal.StartWorkflow) *time.Duration { return &w.RunTimeout }),
		to("id_prefix", text("write a text such as orders-"), "",
			"Stands in front of its id, which is the job and the instant of the tick.",
			func(w *temporal.StartWorkflow) *string { return &w.IDPrefix }),
		by("scheduled_by", word(byLockkeeper, byTemporal), "", "Who starts it at its times: a daemon, "+
			"or the server as one of its own schedules. Defaults to what temporal.schedules says.",
			// see temporalSchedule
			func(r *reader, v value, _ *temporal.StartWorkflow) { _, _ = r.word(v, byLockkeeper, byTemporal) }),
	},
	hints: map[string]string{
		"type": `did you mean "workflow"?`, "queue": `did you mean "task_queue"?`, "input": `did you mean "args"?`,
		"id":        "it is made of the job and the instant of the tick",
		"address":   "it belongs to the section temporal of the file",
		"namespace": "it belongs to the section temporal of the file",
	},
}

// temporalClient is what temporal.NewClient returns, as far as it is needed.
type temporalClient interface {
	temporal.Client
	Close()
}

// temporalServer reads how to reach a Temporal server.
func (r *reader) temporalServer(v value, c *Config) {
	schedulesShape.preset(&c.TemporalSchedules)
	c.TemporalSchedules.Asked = r.pushed
	o, ok := r.optional(v, &temporalShape)
	if !ok {
		return
	}
	before := r.problems()
	r.fill(o, c)
	if t, ok := r.optional(o.get("tls"), &temporalTLSShape); ok {
		c.Temporal.TLS = &temporal.TLS{}
		c.Temporal.TLS.CAFile, _ = r.named(t.get("ca_file"))
		c.Temporal.TLS.CertFile, _ = r.named(t.get("cert_file"))
		c.Temporal.TLS.KeyFile, _ = aSecretFile.read(r, t.get("key_file"))
		if v := t.get("server_name"); v.exists() {
			c.Temporal.TLS.ServerName, _ = r.text(v, "write the name in the server's certificate")
		}
		if !r.pair(t) {
			return
		}
		o.entries = joinedEntries(o.entries, "tls.", t.entries)
	}
	if r.problems() == before {
		r.blamed(c.Temporal.Validate(), o.where)
	}
}

func joinedEntries(all map[string]entry, prefix string, more map[string]entry) map[string]entry {
	for name, e := range more {
		all[prefix+name] = e
	}
	return all
}

// named reads the name of a file that is there; the work reads it again.
func (r *reader) named(v value) (string, bool) {
	if !v.exists() {
		return "", false
	}
	if _, ok := r.file(v); !ok {
		return "", false
	}
	name, _ := r.text(v, "write the name of a file")
	return r.resolve(name), true
}

// aSecretFile is one with a password or a private key in it.
var aSecretFile = of[string]{kind: aFile, read: func(r *reader, v value) (string, bool) {
	name, ok := r.named(v)
	if ok {
		r.secrets = append(r.secrets, name)
	}
	return name, ok
}}

// workflow reads a workflow to start; nil if it is none.
func (r *reader) workflow(v value) *temporal.StartWorkflow {
	w := &temporal.StartWorkflow{}
	o, ok := r.optional(v, &workflowShape)
	if !ok {
		return nil
	}
	r.flow = o
	before := r.problems()
	r.fill(o, w)
	if r.problems() > before || w.Workflow == "" || w.TaskQueue == "" {
		return nil
	}
	w.Client = r.workflowClient(v)
	r.blamed(w.Validate(), o.where)
	if r.problems() > before {
		return nil
	}
	return w
}

func (r *reader) workflowArgs(v value, w *temporal.StartWorkflow) {
	items, _ := r.items(v, "write a list, for example [orders, {all: true}]")
	for _, item := range items {
		w.Args = append(w.Args, r.anything(item))
	}
}

// workflowClient is the one of all workflows of the file: that of the
// configuration before, if it is for the same server.
func (r *reader) workflowClient(v value) temporal.Client {
	if p := r.previous; r.client == nil && p != nil && p.client != nil && reflect.DeepEqual(p.Temporal, r.cfg.Temporal) {
		r.client = p.client
	}
	if r.client == nil {
		made, err := temporal.NewClient(r.cfg.Temporal)
		if r.refused(v, err) {
			return nil
		}
		r.client = made
	}
	return r.client
}

// closeClient closes the client of a file that is refused, unless others use it.
func (r *reader) closeClient() {
	if r.client != nil && (r.previous == nil || r.client != r.previous.client) {
		r.client.Close()
	}
}

// Close gives back what the configuration has opened: the client of the
// Temporal server, if a job starts workflows. Call it when no job of it, nor of
// those that a Reloader made of it, runs any more.
func (c *Config) Close() {
	if c.client != nil {
		c.client.Close()
	}
}

// anything reads a value whatever it is, with the environment put in.
func (r *reader) anything(v value) any {
	switch {
	case !v.exists():
		return nil
	case v.node.Kind == yaml.SequenceNode:
		items, _ := r.items(v, "")
		all := make([]any, len(items))
		for i, item := range items {
			all[i] = r.anything(item)
		}
		return all
	case v.node.Kind == yaml.MappingNode:
		entries, _ := r.entries(v, "", v.named)
		all := make(map[string]any, len(entries))
		for _, e := range entries {
			all[e.name] = r.anything(e.value)
		}
		return all
	case v.node.Tag == tagNull:
		return nil
	}
	s, ok := r.scalar(v, "write a value")
	if !ok {
		return nil
	}
	switch {
	case s.expanded:
	case s.tag == tagInt:
		if n, err := strconv.ParseInt(s.text, 10, 64); err == nil {
			return n
		}
	case s.tag == tagBool:
		if b, err := strconv.ParseBool(s.text); err == nil {
			return b
		}
	case s.tag == "!!float":
		if f, err := strconv.ParseFloat(s.text, 64); err == nil && f-f == 0 { // JSON has no infinity
			return f
		}
	}
	return s.text
}
