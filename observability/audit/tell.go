package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// tell writes a record of this process to the log and to OpenTelemetry.
func (a *Auditor) tell(record opstore.AuditRecord, more ...any) {
	attrs := append(describe(record), more...)
	a.cfg.Logger.Warn("audit", attrs...)
	if a.cfg.Records == nil {
		return
	}
	var r log.Record
	r.SetEventName("lockkeeper.audit")
	r.SetTimestamp(record.At)
	r.SetObservedTimestamp(time.Now())
	r.SetSeverity(log.SeverityWarn)
	r.SetSeverityText("WARN")
	r.SetBody(attribute.StringValue(sentence(record)))
	for i := 0; i+1 < len(attrs); i += 2 {
		r.AddAttributes(keyValue("lockkeeper.audit."+attrs[i].(string), attrs[i+1]))
	}
	a.cfg.Records.Emit(context.Background(), r)
}

func keyValue(key string, value any) attribute.KeyValue {
	switch v := value.(type) {
	case int64:
		return attribute.Int64(key, v)
	case int:
		return attribute.Int(key, v)
	case bool:
		return attribute.Bool(key, v)
	}
	return attribute.String(key, fmt.Sprint(value))
}

// sentence says in a few words what a record is about.
func sentence(r opstore.AuditRecord) string {
	text := fmt.Sprintf("%s: %s (%s)", r.By, r.Action, r.Phase)
	if r.Scope != "" {
		text += " on " + r.Scope
	}
	return text
}

// describe is a record in keys and values of the log.
func describe(r opstore.AuditRecord) []any {
	var attrs []any
	add := func(key, value string) {
		if value != "" {
			attrs = append(attrs, key, value)
		}
	}
	if r.Seq != 0 {
		attrs = append(attrs, "seq", r.Seq)
	}
	add("action", string(r.Action))
	add("phase", string(r.Phase))
	add("act", r.Act)
	add("scope", r.Scope)
	add("job", r.Job)
	add("by", r.By)
	add("identity", r.Identity)
	add("reason", r.Reason)
	add("override", r.Override)
	add("approval", r.Approval)
	if p := r.Requestor; p != nil {
		add("requestor", p.Owner)
		attrs = append(attrs, "requestor_priority", int64(p.Priority))
	}
	add("victims", victims(r.Victims))
	add("before", changes(r.Before))
	add("after", changes(r.After))
	add("result", r.Result)
	add("failure", r.Error)
	return attrs
}

// victims names holders on one line, with the tokens that tell them apart.
func victims(all []opstore.AuditParty) string {
	return words.Join(all, ", ", func(v opstore.AuditParty) string {
		return fmt.Sprintf("%s (priority %d, token %s)", v.Owner, v.Priority, v.Token)
	})
}

func changes(all map[string]string) string {
	parts := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, name+"="+all[name])
	}
	return strings.Join(parts, " ")
}
