package lockguard

import "context"

// WithTraceparent returns a context for work whose spans belong below this W3C
// traceparent: commands find it in their environment as TRACEPARENT, in place of
// that of the request (Hold.Trace), which is a link for others. What WithContext is
// given may set it.
func WithTraceparent(ctx context.Context, traceparent string) context.Context {
	return context.WithValue(ctx, traceparentKey{}, traceparent)
}

// Traceparent returns what WithTraceparent has set, "" when it was not called.
func Traceparent(ctx context.Context) string {
	traceparent, _ := ctx.Value(traceparentKey{}).(string)
	return traceparent
}

type traceparentKey struct{}
