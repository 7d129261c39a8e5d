package lockguard

import "context"

// WithTraceparent returns a context for work whose spans belong below the W3C
// traceparent that f returns: commands find it in their environment as TRACEPARENT, in
// place of that of the request (Hold.Trace), which is a link for others. f is called
// when one is needed. What WithContext is given may set it.
func WithTraceparent(ctx context.Context, f func() string) context.Context {
	return context.WithValue(ctx, traceparentKey{}, f)
}

// Traceparent returns what WithTraceparent has set, "" when it was not called.
func Traceparent(ctx context.Context) string {
	f, ok := ctx.Value(traceparentKey{}).(func() string)
	if !ok {
		return ""
	}
	return f()
}

type traceparentKey struct{}
