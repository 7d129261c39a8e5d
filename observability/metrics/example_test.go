package metrics_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/lockkeeper/lockkeeper/observability/metrics"
)

func Example() {
	endpoint, err := metrics.New(nil)
	if err != nil {
		panic(err)
	}
	err = metrics.Jobs(endpoint.Meter(), func() []metrics.Job {
		return []metrics.Job{{Name: "backup", Ran: 41, Failed: 1}}
	})
	if err != nil {
		panic(err)
	}

	answer := httptest.NewRecorder()
	endpoint.Handler().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "lockkeeper_job_ticks_total") {
			fmt.Print(line)
		}
	}
	// Output:
	// lockkeeper_job_ticks_total{job_name="backup",outcome="failed"} 1
	// lockkeeper_job_ticks_total{job_name="backup",outcome="interrupted"} 0
	// lockkeeper_job_ticks_total{job_name="backup",outcome="lost"} 0
	// lockkeeper_job_ticks_total{job_name="backup",outcome="preempted"} 0
	// lockkeeper_job_ticks_total{job_name="backup",outcome="ran"} 41
	// lockkeeper_job_ticks_total{job_name="backup",outcome="taken"} 0
}
