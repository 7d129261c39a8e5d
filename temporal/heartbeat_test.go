package temporal

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdk "go.temporal.io/sdk/temporal"
)

// fakeTemporal takes heartbeats, by token and from the SDK.
type fakeTemporal struct {
	interceptor.ActivityOutboundInterceptorBase
	mu     sync.Mutex
	beats  []beat
	heard  []beat // from the SDK
	answer func(n int) error
	left   []any // by the attempt before
}

// A beat is when a heartbeat came, and with what.
type beat struct {
	at      time.Duration
	details []string
}

var epoch = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of a bubble

func beatOf(values []any) beat {
	b := beat{at: time.Since(epoch)}
	for _, v := range values {
		b.details = append(b.details, string(v.(converter.RawValue).Payload().GetData()))
	}
	return b
}

func (f *fakeTemporal) RecordActivityHeartbeatWithOptions(ctx context.Context, o client.RecordActivityHeartbeatOptions) error {
	f.mu.Lock()
	f.beats = append(f.beats, beatOf(o.Details))
	n, answer := len(f.beats), f.answer
	f.mu.Unlock()
	if answer == nil {
		return nil
	}
	err := answer(n)
	if errors.Is(err, errSilence) {
		<-ctx.Done()
		return ctx.Err()
	}
	return err
}

var errSilence = errors.New("no answer")

func (f *fakeTemporal) RecordHeartbeat(_ context.Context, values ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard = append(f.heard, beatOf(values))
}

func (f *fakeTemporal) HasHeartbeatDetails(context.Context) bool { return f.left != nil }

func (f *fakeTemporal) GetHeartbeatDetails(_ context.Context, values ...any) error {
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(f.left...)
	if err != nil {
		return err
	}
	return converter.GetDefaultDataConverter().FromPayloads(payloads, values...)
}

func (f *fakeTemporal) all() []beat {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]beat(nil), f.beats...)
}

// begins starts a pulse, inside of a bubble.
func (f *fakeTemporal) begins(t *testing.T, timeout time.Duration) (p *pulse, ended context.Context) {
	t.Helper()
	ended, cancel := context.WithCancelCause(t.Context())
	left, err := inherited(t.Context(), f)
	require.NoError(t, err)
	p = startPulse(t.Context(), f, f, activity.Info{HeartbeatTimeout: timeout}, left, cancel, slog.New(slog.DiscardHandler))
	return p, ended
}

func TestHeartbeatsComeAtOnceAndKeepTheProgressOfTheAttemptBefore(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		every   time.Duration
	}{
		"short timeout": {3 * time.Second, time.Second},
		"long timeout":  {time.Minute, 2 * time.Second},
		"no timeout":    {0, 2 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeTemporal{left: []any{"page", 7}}
				p, _ := f.begins(t, c.timeout)
				time.Sleep(2*c.every + c.every/2)
				p.stop(true)
				want := []string{`"page"`, "7"}
				require.Equal(t, []beat{{0, want}, {c.every, want}, {2 * c.every, want}}, f.all())
			})
		})
	}
}

func TestProgressIsToldSoonAndAgainWithEachHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTemporal{left: []any{"old"}}
		p, _ := f.begins(t, 6*time.Second)
		time.Sleep(time.Second)
		state := []int{1} // the activity goes on to use it
		for range 100 {
			p.record([]any{state})
		}
		state[0] = 2
		synctest.Wait()
		require.Equal(t, []beat{{0, []string{`"old"`}}, {time.Second, []string{"[1]"}}}, f.all())
		p.record([]any{"newer"}) // too soon
		time.Sleep(3 * time.Second)
		p.record([]any{nil}) // is none, for the SDK as well
		time.Sleep(time.Second)
		p.stop(false)
		require.Equal(t, []beat{{progress + time.Second, []string{`"newer"`}}, {progress + 3*time.Second, []string{`"newer"`}}, {4 * time.Second, nil}}, f.all()[2:])
	})
}

func TestLastProgressOfAFailedAttemptIsTold(t *testing.T) {
	for failed, want := range map[bool]int{true: 2, false: 1} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeTemporal{}
			p, _ := f.begins(t, 6*time.Second)
			synctest.Wait()
			p.record([]any{"last"})
			p.stop(failed)
			require.Len(t, f.all(), want)
			if failed {
				require.Equal(t, []string{`"last"`}, f.all()[1].details)
			}
		})
	}
}

func TestWordOfTheServerEndsTheAttemptAndReachesTheSDK(t *testing.T) {
	gone := serviceerror.NewNotFound("gone")
	for name, c := range map[string]struct {
		word   error
		closed bool // and no heartbeat makes sense any more
	}{
		"cancel": {sdk.NewCanceledError(), false},
		"pause":  {activity.ErrActivityPaused, false},
		"reset":  {activity.ErrActivityReset, false},
		"gone":   {gone, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeTemporal{answer: func(n int) error {
					if n == 1 {
						return nil
					}
					return c.word
				}}
				p, ended := f.begins(t, 3*time.Second)
				p.record([]any{"kept"})
				<-ended.Done()
				require.Equal(t, c.word, context.Cause(ended))
				require.Len(t, f.heard, 1)
				require.Equal(t, []string{`"kept"`}, f.heard[0].details)

				// then they go on for as long as the cleanup takes
				before := len(f.all())
				time.Sleep(5*time.Second + 500*time.Millisecond) // between two of them
				p.stop(true)
				if c.closed {
					require.Len(t, f.all(), before)
				} else {
					require.Len(t, f.all(), before+5)
				}
				require.Len(t, f.heard, 1)
			})
		})
	}
}

func TestAttemptWhoseHeartbeatsAreNotAcceptedIsSuperseded(t *testing.T) {
	refused := serviceerror.NewUnavailable("away")
	for name, answer := range map[string]error{"refused": refused, "unanswered": errSilence} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &fakeTemporal{answer: func(n int) error {
					if n <= 2 {
						return nil
					}
					return answer
				}}
				p, ended := f.begins(t, 3*time.Second)
				<-ended.Done()
				require.Equal(t, time.Second+3*time.Second, time.Since(epoch), "a heartbeat timeout after the last one that was accepted was sent")
				var superseded *SupersededError
				require.ErrorAs(t, context.Cause(ended), &superseded)
				require.Equal(t, 3*time.Second, superseded.Timeout)
				p.stop(false)
			})
		})
	}
}

// An attempt begins when it is sure that it is the current one: not before the first
// heartbeat was accepted, and not when the last one was longer ago than the timeout.
func TestAttemptIsConfirmedByAHeartbeatThatIsNotTooOld(t *testing.T) {
	const timeout = 6 * time.Second
	synctest.Test(t, func(t *testing.T) {
		silent := true
		f := &fakeTemporal{answer: func(n int) error {
			if n == 1 || n > 2 && silent {
				return errors.New("try again")
			}
			return nil
		}}
		p, ended := f.begins(t, timeout)
		defer p.stop(false)
		began := time.Now()
		require.NoError(t, p.confirm(ended))
		require.Len(t, f.all(), 2, "not with the one that failed")
		require.Equal(t, maxPulse, time.Since(began))
		require.NoError(t, p.confirm(ended), "at once")
		require.Equal(t, maxPulse, time.Since(began))

		// when none has been accepted for a while, and the process has not noticed
		p.mu.Lock()
		p.known = time.Now().Add(-timeout)
		p.mu.Unlock()
		silent = false
		before := len(f.all())
		require.NoError(t, p.confirm(ended))
		require.Greater(t, len(f.all()), before)
	})
}

func TestAttemptThatTheServerHasGivenUpIsNotConfirmed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTemporal{answer: func(int) error { return serviceerror.NewNotFound("activity is gone") }}
		p, ended := f.begins(t, 6*time.Second)
		defer p.stop(false)
		require.ErrorIs(t, p.confirm(ended), context.Canceled)
	})
}

func TestAttemptWithoutAHeartbeatTimeoutIsNotSuperseded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTemporal{answer: func(int) error { return serviceerror.NewUnavailable("away") }}
		p, ended := f.begins(t, 0)
		time.Sleep(time.Hour)
		require.NoError(t, ended.Err())
		p.stop(false)
	})
}

func TestStopDoesNotWaitForTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTemporal{answer: func(int) error { return errSilence }}
		p, _ := f.begins(t, time.Hour)
		synctest.Wait()
		p.stop(false)
		require.Zero(t, time.Since(epoch))
		p, _ = f.begins(t, time.Hour)
		p.record([]any{"last"})
		p.stop(true)
		require.Equal(t, flushTime, time.Since(epoch))
	})
}

func TestSlipIsHiddenBehindTheProgress(t *testing.T) {
	slipOf := slip{Since: time.Unix(7, 0).UTC(), Yields: 3}
	hidden := converter.NewRawValue(slipOf.payload())
	many := make([]any, 20)
	for i := range many {
		many[i] = i
	}
	for name, c := range map[string]struct {
		left []any
		want int // of the user's
		slip bool
	}{
		"nothing":            {nil, 0, false},
		"progress":           {[]any{"a", 2}, 2, false},
		"a slip":             {[]any{hidden}, 0, true},
		"both":               {[]any{"a", 2, hidden}, 2, true},
		"much":               {many, 20, false},
		"much and a slip":    {append(many[:20:20], hidden), 20, true},
		"of another version": {[]any{"a", converter.NewRawValue(&commonpb.Payload{Metadata: map[string][]byte{slipKey: []byte(slipValue)}, Data: []byte("?")})}, 1, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := &fakeTemporal{left: c.left}
			d, err := inherited(t.Context(), f)
			require.NoError(t, err)
			require.Len(t, d.payloads, c.want)
			require.Equal(t, c.slip, d.slip != nil)
			if c.slip && name != "of another version" {
				require.Equal(t, slipOf, *d.slip)
			}

			o := &activityOutbound{attempt: &activityInterceptor{}}
			o.Next = f
			require.Equal(t, c.want > 0, o.HasHeartbeatDetails(t.Context()))
			var first, second, third any
			err = o.GetHeartbeatDetails(t.Context(), &first, &second, &third)
			switch {
			case c.want == 0 && c.slip:
				require.ErrorIs(t, err, sdk.ErrNoData)
			case c.want == 2:
				require.NoError(t, err)
				require.Equal(t, []any{"a", 2.0, nil}, []any{first, second, third})
			}
		})
	}
}

func TestSlipTravelsBesideTheProgressUntilItIsTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTemporal{left: []any{"progress"}}
		p, _ := f.begins(t, 6*time.Second)
		synctest.Wait()
		require.NoError(t, p.leave(slip{Yields: 1}))
		p.take()
		time.Sleep(2 * time.Second)
		p.stop(true)
		beats := f.all()
		require.Len(t, beats, 3)
		require.Len(t, beats[1].details, 2)
		require.JSONEq(t, `{"since":"0001-01-01T00:00:00Z","yields":1}`, beats[1].details[1])
		require.Equal(t, []string{`"progress"`}, beats[2].details)
	})
}

func TestSlipOfTheAttemptBeforeIsKeptUntilTheLockIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeTemporal{left: []any{"progress", converter.NewRawValue(slip{Yields: 2}.payload())}}
		p, _ := f.begins(t, 6*time.Second)
		time.Sleep(3 * time.Second)
		p.take()
		p.stop(true)
		beats := f.all()
		require.Len(t, beats, 3)
		require.Len(t, beats[0].details, 2)
		require.Len(t, beats[1].details, 2)
		require.Len(t, beats[2].details, 1, "and it is gone when the attempt fails")
	})
}
