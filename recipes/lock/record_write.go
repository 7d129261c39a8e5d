package lock

import (
	"strconv"

	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// A recordWriter writes a record as encoding/json does, byte for byte, without
// finding out by reflection what it consists of: each request writes one, and each
// grant.
type recordWriter []byte

// encodeContender is encode for a contender's record.
func encodeContender(r *contenderRecord) []byte {
	if r.Mode != priority.Exclusive && r.Mode != priority.Shared {
		return znode.Encode(r) // which refuses it
	}
	texts := len(r.Owner) + len(r.Host) + len(r.Hold) + len(r.Class) + len(r.Message) + len(r.Trace)
	w := make(recordWriter, 0, 320+texts)
	w = append(w, `{"format":`...)
	w = strconv.AppendInt(w, int64(r.Format), 10)
	w.text(`,"owner":`, r.Owner)
	w.text(`,"host":`, r.Host)
	w.number(`,"pid":`, int64(r.PID))
	w.number(`,"priority":`, int64(r.Priority))
	w.text(`,"mode":`, r.Mode.String())
	w.number(`,"lease_timeout_ms":`, r.LeaseTimeout)
	w.number(`,"cleanup_timeout_ms":`, r.CleanupTimeout)
	if r.WaitingTimeout != nil {
		w.number(`,"waiting_timeout_ms":`, *r.WaitingTimeout)
	}
	if r.AcquireTimeout != nil {
		w.number(`,"acquire_timeout_ms":`, *r.AcquireTimeout)
	}
	w.flag(`,"forceful":true`, r.Forceful)
	w.flag(`,"patient":true`, r.Patient)
	w.someNumber(`,"min_runtime_ms":`, r.MinRuntime)
	w.flag(`,"lease_only":true`, r.LeaseOnly)
	w.someNumber(`,"preempt_delta":`, int64(r.PreemptDelta))
	w.flag(`,"never_preempts":true`, r.NeverPreempts)
	w.someNumber(`,"lock_delay_ms":`, r.LockDelay)
	w.someText(`,"hold":`, r.Hold)
	w.someText(`,"class":`, r.Class)
	w.someText(`,"message":`, r.Message)
	w.someText(`,"traceparent":`, r.Trace)
	if len(r.Under) > 0 {
		w.any(`,"under":`, r.Under)
	}
	if r.Override != nil {
		w.any(`,"override":`, r.Override)
	}
	w.flag(`,"granted":true`, r.Granted)
	w.someNumber(`,"token":`, int64(r.Token))
	w.someNumber(`,"granted_at":`, r.GrantedAt)
	w.someNumber(`,"lease_from":`, r.LeaseFrom)
	w.someNumber(`,"runs_from":`, r.RunsFrom)
	if len(r.Preempt) > 0 {
		w.any(`,"preempt_by":`, r.Preempt)
	}
	w.someNumber(`,"behind":`, int64(r.Behind))
	return append(w, '}')
}

func (w *recordWriter) number(name string, n int64) {
	*w = strconv.AppendInt(append(*w, name...), n, 10)
}

func (w *recordWriter) someNumber(name string, n int64) {
	if n != 0 {
		w.number(name, n)
	}
}

func (w *recordWriter) flag(member string, set bool) {
	if set {
		*w = append(*w, member...)
	}
}

func (w *recordWriter) text(name, s string) {
	if !plain(s) {
		w.any(name, s)
		return
	}
	*w = append(append(append(append(*w, name...), '"'), s...), '"')
}

func (w *recordWriter) someText(name, s string) {
	if s != "" {
		w.text(name, s)
	}
}

// any is for what is rare.
func (w *recordWriter) any(name string, v any) {
	*w = append(append(*w, name...), znode.Encode(v)...)
}

// plain reports whether a text stands in JSON as it is.
func plain(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20, c >= 0x7f, c == '"', c == '\\', c == '<', c == '>', c == '&':
			return false
		}
	}
	return true
}
