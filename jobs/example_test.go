package jobs_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
)

func ExampleJob_Do() {
	job := jobs.Job{
		Name:     "compact",
		Schedule: "*/5 * * * *",
		Timeout:  time.Minute,
		Work:     &jobs.Command{Argv: []string{"sh", "-c", "echo compacting; exit 3"}},
	}
	if err := job.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	output := jobs.NewTail(0)
	err := job.Do(context.Background(), nil, jobs.Run{Stdout: output})
	fmt.Print(output)
	fmt.Println(err)
	// Output:
	// compacting
	// command "sh" failed with exit status 3
}

func ExampleJob_Validate() {
	job := jobs.Job{
		Name:         "nightly backup",
		Requirements: []lockguard.Requirement{{Scope: "cluster/orders"}, {Scope: "cluster/users"}, {Scope: "cluster/orders"}},
		Work:         &jobs.Command{Argv: []string{"backup"}},
	}
	fmt.Println(job.Validate())
	// Output:
	// lockkeeper: name: "nightly backup" contains ' '; write only letters, digits, dots, underscores and hyphens
	// lockkeeper: locks[2].scope: "cluster/orders" is that of locks[0] already; write each scope once
}

func ExampleWithCleanup() {
	compact := jobs.Func(func(ctx context.Context, run jobs.Run) error {
		return nil // the work, which ends when ctx does
	})
	restore := jobs.Func(func(ctx context.Context, run jobs.Run) error {
		return nil // puts things right, still under the lock
	})
	job := jobs.Job{
		Name:         "compact",
		Requirements: []lockguard.Requirement{{Scope: "cluster/orders", Terms: priority.Terms{CleanupTimeout: 30 * time.Second}}},
		Work:         jobs.WithCleanup(compact, restore),
	}
	fmt.Println(job.Validate())
	// Output: <nil>
}

func ExampleHTTP() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s once for %s\n", r.URL.Path, r.Header.Get("Idempotency-Key"))
	}))
	defer server.Close()

	job := jobs.Job{
		Name:     "compact",
		Schedule: "30 7 * * *",
		Timeout:  time.Minute,
		Work: &jobs.HTTP{
			URL:    server.URL + "/compact",
			Header: http.Header{"Authorization": {"Bearer 4711"}},
			Body:   []byte(`{"all": true}`),
			Expect: []int{http.StatusOK, http.StatusAccepted},
		},
	}
	if err := job.Validate(); err != nil {
		fmt.Println(err)
		return
	}
	output := job.NewOutput()
	err := job.Do(context.Background(), nil, jobs.Run{
		Scheduled: time.Date(2026, 3, 8, 7, 30, 0, 0, time.UTC),
		Stdout:    output,
	})
	fmt.Print(output)
	fmt.Println(err)
	// Output:
	// /compact once for compact-2026-03-08T07:30:00Z
	// <nil>
}

func ExampleCleanedBy() {
	job := jobs.Job{
		Name:         "compact",
		Requirements: []lockguard.Requirement{{Scope: "cluster/orders", Terms: priority.Terms{CleanupTimeout: 30 * time.Second}}},
		Work: jobs.CleanedBy(
			&jobs.HTTP{URL: "https://orders.example.com/compaction"},
			&jobs.HTTP{URL: "https://orders.example.com/compaction", Method: http.MethodDelete},
		),
	}
	fmt.Println(job.Validate())
	// Output: <nil>
}
