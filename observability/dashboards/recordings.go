package dashboards

import "time"

const recordedWindow = 5 * time.Minute

// Recordings returns what is kept for looking back: reports over weeks, which are
// slow to make from the buckets of histograms. The dashboards do without.
func Recordings() []Recording {
	by := labels{"job": "lk", "lock_class": "db"}
	return []Recording{
		{
			Name: "job_lock_class:lockkeeper_lock_wait_seconds:rate5m", Query: secondsWaited(), Window: recordedWindow,
			proof: proof{
				good: series{waits + `_sum{job="lk",lock_class="db"}`: "0+120x20"}, at: 10 * time.Minute, labels: by, value: "2",
			},
		},
		{
			Name: "job_lock_class:lockkeeper_lock_hold_seconds:rate5m", Query: secondsHeld(), Window: recordedWindow,
			proof: proof{
				good: series{holds + `_sum{job="lk",lock_class="db"}`: "0+30x20"}, at: 10 * time.Minute, labels: by, value: "0.5",
			},
		},
		{
			Name: "job_lock_class:lockkeeper_lock_wait_seconds:p95_5m", Query: waitQuantileByClass(0.95),
			Window: recordedWindow,
			proof: proof{good: series{
				waits + `_bucket{job="lk",lock_class="db",le="1"}`:    "0x20",
				waits + `_bucket{job="lk",lock_class="db",le="5"}`:    "0+60x20",
				waits + `_bucket{job="lk",lock_class="db",le="+Inf"}`: "0+60x20",
			}, at: 10 * time.Minute, labels: by, value: "4.8"},
		},
		{
			Name: "job_lock_class:lockkeeper_lock_wait_failures:ratio_rate5m", Query: failureRatio(), Window: recordedWindow,
			proof: proof{good: series{
				waits + `_count{job="lk",lock_class="db",outcome="acquired"}`: "0+3x20",
				waits + `_count{job="lk",lock_class="db",outcome="timeout"}`:  "0+1x20",
			}, at: 10 * time.Minute, labels: by, value: "0.25"},
		},
		{
			Name: "job_lock_class:lockkeeper_lock_waiters:max", Query: waitersOfClass(), Window: recordedWindow,
			proof: proof{good: series{
				waiters + `{job="lk",instance="a:1",lock_class="db",lock_mode="exclusive"}`: "3x20",
				waiters + `{job="lk",instance="b:1",lock_class="db",lock_mode="exclusive"}`: "4x20",
				waiters + `{job="lk",instance="b:1",lock_class="db",lock_mode="shared"}`:    "1x20",
			}, at: 10 * time.Minute, labels: by, value: "5"},
		},
		{
			Name: "job_op:lockkeeper_zk_operation_seconds:p99_5m", Query: operationQuantile(0.99), Window: recordedWindow,
			proof: proof{good: series{
				operations + `_bucket{job="lk",op="multi",le="1"}`:    "0x20",
				operations + `_bucket{job="lk",op="multi",le="5"}`:    "0+60x20",
				operations + `_bucket{job="lk",op="multi",le="+Inf"}`: "0+60x20",
			}, at: 10 * time.Minute, labels: labels{"job": "lk", "op": "multi"}, value: "4.96"},
		},
	}
}
