package config

import (
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v4"

	"github.com/lockkeeper/lockkeeper/temporal"
)

var temporalShape = shape{
	name:    "temporal",
	example: "write it like {address: temporal.example.com:7233, namespace: orders}",
	keys: []key{
		{"address", aText, temporal.DefaultAddress, "The frontend of the server, host:port."},
		{"namespace", aText, "default", "The namespace that workflows are started in."},
		{"identity", aText, "pid@host", "What the server knows the daemon by."},
		{"api_key_file", aFile, "", "A file with the key that proves who the daemon is, as Temporal Cloud wants it; it needs tls."},
		{"tls", like(&temporalTLSShape), "", "TLS to the server; {} trusts the certificate authorities of the system."},
		{"schedules", oneOf(aBoolean, like(&schedulesShape)), "false", "Jobs that start workflows become schedules of the server, which starts them itself; the workflow takes the locks, in workers with the plugin."},
	},
	hints: map[string]string{
		"host": `did you mean "address"?`, "hostport": `did you mean "address"?`, "api_key": "put it into a file and name that: api_key_file: FILE",
		"workflow": "it belongs to a job: run: {temporal: {workflow: ...}}", "task_queue": "it belongs to a job: run: {temporal: {task_queue: ...}}",
	},
}

var temporalTLSShape = shape{
	name:    "temporal.tls",
	example: tlsShape.example,
	keys:    tlsShape.keys,
	hints:   tlsShape.hints,
}

var workflowShape = shape{
	name:    "run.temporal",
	example: "write it like {workflow: Rebalance, task_queue: orders}",
	keys: []key{
		{"workflow", aText, "", "The type of the workflow."},
		{"task_queue", aText, "", "Where its workers listen."},
		{"args", listOf(kind{what: "anything", scalar: ofAnything}), "", "What it is given."},
		{"wait", aBoolean, "false", "The run lasts as long as the workflow, not only until it is started."},
		{"terminate", aBoolean, "false", "With wait: ends a workflow that does not end when it is cancelled."},
		{"cancel_timeout", aDuration, formatDuration(temporal.DefaultCancelTimeout), "With wait: how long the workflow has from the request to cancel it."},
		{"execution_timeout", aDuration, "", "Bounds the workflow with all its retries and continuations."},
		{"run_timeout", aDuration, "", "Bounds each of these."},
		{"id_prefix", aText, "", "Stands in front of its id, which is the job and the instant of the tick."},
		{"scheduled_by", word(byLockkeeper, byTemporal), "", "Who starts it at its times: a daemon, or the server as one of its own schedules. Defaults to what temporal.schedules says."},
	},
	must: []string{"workflow", "task_queue"},
	hints: map[string]string{
		"type": `did you mean "workflow"?`, "queue": `did you mean "task_queue"?`, "input": `did you mean "args"?`, "id": "it is made of the job and the instant of the tick",
		"address": "it belongs to the section temporal of the file", "namespace": "it belongs to the section temporal of the file",
	},
}

// temporalClient is what temporal.NewClient returns, as far as it is needed.
type temporalClient interface {
	temporal.Client
	Close()
}

// temporalServer reads how to reach a Temporal server.
func (r *reader) temporalServer(v value) temporal.Options {
	var options temporal.Options
	o, ok := r.optional(v, temporalShape)
	if !ok {
		return options
	}
	before := r.problems()
	for _, text := range []struct {
		key     string
		instead string
		into    *string
	}{
		{"address", "write host:port, for example localhost:7233", &options.Address},
		{"namespace", "write the name of a namespace", &options.Namespace},
		{"identity", "write a name for people", &options.Identity},
	} {
		if v := o.get(text.key); v.exists() {
			*text.into, _ = r.text(v, text.instead)
		}
	}
	r.schedules = r.temporalSchedules(o.get("schedules"))
	options.APIKeyFile = r.named(o.get("api_key_file"))
	if options.APIKeyFile != "" {
		r.secrets = append(r.secrets, options.APIKeyFile)
	}
	if t, ok := r.optional(o.get("tls"), temporalTLSShape); ok {
		options.TLS = &temporal.TLS{
			CAFile: r.named(t.get("ca_file")), CertFile: r.named(t.get("cert_file")), KeyFile: r.named(t.get("key_file")),
		}
		if v := t.get("server_name"); v.exists() {
			options.TLS.ServerName, _ = r.text(v, "write the name in the server's certificate")
		}
		if options.TLS.KeyFile != "" {
			r.secrets = append(r.secrets, options.TLS.KeyFile)
		}
		if !r.pair(t) {
			return options
		}
		o.entries = joinedEntries(o.entries, "tls.", t.entries)
	}
	if r.problems() == before {
		r.blamed(options.Validate(), func(field string) value {
			if o.get(field).exists() {
				return o.get(field)
			}
			return v
		})
	}
	return options
}

func joinedEntries(all map[string]entry, prefix string, more map[string]entry) map[string]entry {
	for name, e := range more {
		all[prefix+name] = e
	}
	return all
}

// named reads the name of a file that is there; the work reads it again.
func (r *reader) named(v value) string {
	if !v.exists() {
		return ""
	}
	if _, ok := r.file(v); !ok {
		return ""
	}
	name, _ := r.text(v, "write the name of a file")
	return r.resolve(name)
}

// workflow reads a workflow to start; nil if it is none.
func (r *reader) workflow(v value) *temporal.StartWorkflow {
	o, ok := r.optional(v, workflowShape)
	if !ok {
		return nil
	}
	w := &temporal.StartWorkflow{}
	r.flow = o
	before := r.problems()
	for _, text := range []struct {
		key, instead string
		into         *string
	}{
		{"workflow", "write its type, for example Rebalance", &w.Workflow},
		{"task_queue", "write where its workers listen, for example orders", &w.TaskQueue},
		{"id_prefix", "write a text such as orders-", &w.IDPrefix},
	} {
		if v := o.get(text.key); v.exists() {
			*text.into, _ = r.text(v, text.instead)
		} else if !o.has(text.key) && text.key != "id_prefix" {
			r.missing(o.value, text.key+" is missing", text.instead)
		}
	}
	if v := o.get("args"); v.exists() {
		items, _ := r.items(v, "write a list, for example [orders, {all: true}]")
		for _, item := range items {
			w.Args = append(w.Args, r.anything(item))
		}
	}
	if v := o.get("wait"); v.exists() {
		w.Wait, _ = r.boolean(v)
	}
	if v := o.get("terminate"); v.exists() {
		w.Terminate, _ = r.boolean(v)
	}
	if v := o.get("cancel_timeout"); v.exists() {
		w.CancelTimeout, _ = r.positive(v)
	}
	if v := o.get("scheduled_by"); v.exists() {
		_, _ = r.word(v, byLockkeeper, byTemporal) // see temporalSchedule
	}
	if v := o.get("execution_timeout"); v.exists() {
		w.ExecutionTimeout, _ = r.positive(v)
	}
	if v := o.get("run_timeout"); v.exists() {
		w.RunTimeout, _ = r.positive(v)
	}
	if r.problems() > before || w.Workflow == "" || w.TaskQueue == "" {
		return nil
	}
	w.Client = r.workflowClient(v)
	r.blamed(w.Validate(), func(field string) value {
		if o.get(field).exists() {
			return o.get(field)
		}
		return v
	})
	if r.problems() > before {
		return nil
	}
	return w
}

// workflowClient is the one of all workflows of the file: that of the
// configuration before, if it is for the same server.
func (r *reader) workflowClient(v value) temporal.Client {
	if p := r.previous; r.client == nil && p != nil && p.client != nil && reflect.DeepEqual(p.Temporal, r.temporal) {
		r.client = p.client
	}
	if r.client == nil {
		made, err := temporal.NewClient(r.temporal)
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
