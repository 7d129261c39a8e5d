package scheduler

import (
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/robfig/cron/v3"
)

// Ten thousand jobs, of which a thousand are due each second, every one at a
// moment of its own, and ten thousand that are not due for long: what that costs
// with one entry of the library for all of them, and with one entry each. The
// clock is virtual, the processor time is not.
func BenchmarkTenThousandJobs(b *testing.B) {
	const jobs, period = 10_000, 10 * time.Second
	runners := []struct {
		name string
		run  func(next func(i int) instants) (stop func())
	}{
		{"runner", func(next func(i int) instants) func() {
			r := newRunner(nil)
			for i := range jobs {
				r.add(next(i))
			}
			r.start()
			return r.stop
		}},
		{"robfig", func(next func(i int) instants) func() {
			c := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(cron.DiscardLogger))
			for i := range jobs {
				c.Schedule(next(i), cron.FuncJob(func() {}))
			}
			c.Start()
			return func() { <-c.Stop().Done() }
		}},
	}
	for _, r := range runners {
		b.Run("due/"+r.name, func(b *testing.B) {
			b.ReportAllocs()
			inBubble(b, func() {
				var calls atomic.Int64
				stop := r.run(func(i int) instants {
					apart := time.Duration(i) * period / jobs
					return func(now time.Time) time.Time {
						calls.Add(1)
						return now.Add(-apart).Truncate(period).Add(period + apart)
					}
				})
				time.Sleep(period)
				synctest.Wait()
				b.ResetTimer()
				used, before := processor(), calls.Load()
				time.Sleep(time.Duration(b.N) * period / jobs)
				synctest.Wait()
				b.ReportMetric(float64(processor()-used)/float64(calls.Load()-before), "cpu-ns/op")
				b.ReportMetric(0, "ns/op") // of the virtual clock
				b.StopTimer()
				stop()
			})
		})
	}
	// What remains is the look at the clock each wakeEvery, of which the library
	// has none.
	b.Run("rest/runner", func(b *testing.B) {
		b.ReportAllocs()
		inBubble(b, func() {
			stop := runners[0].run(func(int) instants {
				return func(now time.Time) time.Time { return now.Add(1e6 * time.Hour) }
			})
			time.Sleep(time.Second)
			synctest.Wait()
			b.ResetTimer()
			used := processor()
			time.Sleep(time.Duration(b.N) * wakeEvery)
			synctest.Wait()
			b.ReportMetric(float64(processor()-used)/float64(b.N), "cpu-ns/op")
			b.ReportMetric(0, "ns/op")
			b.StopTimer()
			stop()
		})
	})
}

type instants func(time.Time) time.Time

func (f instants) Next(now time.Time) time.Time { return f(now) }

// processor returns the processor time that the process has used.
func processor() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage) // cannot fail
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// inBubble runs f on the clock of a bubble, which needs a test.
func inBubble(b *testing.B, f func()) {
	b.Helper()
	ok := testing.RunTests(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{
		{Name: b.Name(), F: func(t *testing.T) { synctest.Test(t, func(*testing.T) { f() }) }},
	})
	if !ok {
		b.Fatal("the bubble failed")
	}
}
