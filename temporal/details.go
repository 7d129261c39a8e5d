package temporal

import (
	"context"
	"encoding/json"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// A slip is what an attempt that yields leaves for the next one: the last of
// the heartbeat details, which the activity does not see.
type slip struct {
	// Reference is where the place in the queue is kept; zero: nowhere.
	Reference lockguard.Reference `json:"reference,omitzero"`

	// Since is when the execution began to wait, on the server's clock.
	Since time.Time `json:"since"`

	// Yields counts the attempts that have yielded in a row.
	Yields int `json:"yields"`
}

const (
	slipKey   = "lockkeeper"
	slipValue = "slip"
)

// details are heartbeat details as they travel.
type details struct {
	payloads []*commonpb.Payload
	slip     *slip
}

// encoded returns the details that the activity tells, as they are now: it may
// change the values afterwards. A codec is not applied yet. It panics as the SDK
// does when they cannot be encoded.
func encoded(values []any) details {
	if len(values) == 0 || len(values) == 1 && values[0] == nil {
		return details{}
	}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(values...)
	if err != nil {
		panic(err)
	}
	return details{payloads: payloads.GetPayloads()}
}

// inherited returns the details that the attempt before has left.
func inherited(ctx context.Context, sdk interceptor.ActivityOutboundInterceptor) (details, error) {
	if !sdk.HasHeartbeatDetails(ctx) {
		return details{}, nil
	}
	for room := 8; ; room *= 2 {
		values, pointers := make([]converter.RawValue, room), make([]any, room)
		for i := range values {
			pointers[i] = &values[i]
		}
		if err := sdk.GetHeartbeatDetails(ctx, pointers...); err != nil {
			return details{}, err
		}
		if values[room-1].Payload() != nil {
			continue // there may be more
		}
		var d details
		for _, v := range values {
			if v.Payload() != nil {
				d.payloads = append(d.payloads, v.Payload())
			}
		}
		return d.split(), nil
	}
}

// split takes the slip off the end.
func (d details) split() details {
	last := len(d.payloads) - 1
	if last < 0 || string(d.payloads[last].GetMetadata()[slipKey]) != slipValue {
		return d
	}
	s := new(slip)
	if err := json.Unmarshal(d.payloads[last].GetData(), s); err != nil {
		s = new(slip) // of another version
	}
	return details{payloads: d.payloads[:last], slip: s}
}

// values are to be given to the SDK.
func (d details) values() []any {
	var values []any
	for _, p := range d.payloads {
		values = append(values, converter.NewRawValue(proto.CloneOf(p)))
	}
	if d.slip != nil {
		if p := d.slip.payload(); p != nil {
			values = append(values, converter.NewRawValue(p))
		}
	}
	return values
}

func (s slip) payload() *commonpb.Payload {
	text, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	return &commonpb.Payload{
		Metadata: map[string][]byte{
			converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON), slipKey: []byte(slipValue),
		},
		Data: text,
	}
}

// activityOutbound is what an activity talks to. It hides slips, and takes over
// the heartbeats of those that have a pulse.
type activityOutbound struct {
	interceptor.ActivityOutboundInterceptorBase
	attempt *activityInterceptor
}

// RecordHeartbeat tells progress.
func (o *activityOutbound) RecordHeartbeat(ctx context.Context, values ...any) {
	p := o.attempt.pulse.Load()
	if p == nil {
		o.Next.RecordHeartbeat(ctx, values...)
		return
	}
	p.record(values)
	if p.token == nil {
		o.Next.RecordHeartbeat(ctx, values...)
	}
}

// HasHeartbeatDetails reports whether the attempt before has recorded progress.
func (o *activityOutbound) HasHeartbeatDetails(ctx context.Context) bool {
	if !o.Next.HasHeartbeatDetails(ctx) {
		return false
	}
	d, err := inherited(ctx, o.Next)
	return err != nil || d.slip == nil || len(d.payloads) > 0
}

// GetHeartbeatDetails returns the progress that the attempt before has recorded.
func (o *activityOutbound) GetHeartbeatDetails(ctx context.Context, values ...any) error {
	d, err := inherited(ctx, o.Next)
	if err != nil || d.slip == nil {
		return o.Next.GetHeartbeatDetails(ctx, values...)
	}
	if len(d.payloads) == 0 {
		return sdk.ErrNoData
	}
	return o.Next.GetHeartbeatDetails(ctx, values[:min(len(values), len(d.payloads))]...)
}
