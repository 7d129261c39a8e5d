package temporaltesting_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// fakeT is a test in which nothing has to be right.
type fakeT struct {
	testing.TB
	fatal, logged string
	cleanups      []func()
}

func (f *fakeT) Helper()                         {}
func (f *fakeT) Cleanup(c func())                { f.cleanups = append(f.cleanups, c) }
func (f *fakeT) Failed() bool                    { return f.fatal != "" }
func (f *fakeT) Logf(format string, args ...any) { f.logged += fmt.Sprintf(format, args...) }

func (f *fakeT) Fatalf(format string, args ...any) {
	f.fatal = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (f *fakeT) Errorf(format string, args ...any) { f.fatal = fmt.Sprintf(format, args...) }

// run waits until a test has returned, or is over because of Fatalf.
func (f *fakeT) run(test func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		test()
	}()
	<-done
}

// end does what is to be done at the end of a test.
func (f *fakeT) end() {
	for _, c := range slices.Backward(f.cleanups) {
		c()
	}
}
