package doctor

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/lockkeeper/lockkeeper/jobs"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// asksTemporal reports whether the file has a Temporal server.
func (x *examiner) asksTemporal() bool { return x.options.usesTemporal() }

func (o Options) usesTemporal() bool {
	return o.Config != nil && (o.Config.Temporal != temporal.Options{} || o.Config.Approvals.Temporal != nil ||
		slices.ContainsFunc(o.Config.Jobs, startsWorkflow))
}

func startsWorkflow(job jobs.Job) bool {
	_, ok := job.Work.(*temporal.StartWorkflow)
	return ok
}

func checkTemporal(ctx context.Context, o temporal.Options) error { return temporal.Check(ctx, o) }

func checkTemporalAnswer(f *findings, x *facts, o Options) {
	if !o.usesTemporal() {
		return
	}
	address, namespace := cmp.Or(o.Config.Temporal.Address, temporal.DefaultAddress),
		cmp.Or(o.Config.Temporal.Namespace, "default")
	if x.temporal != nil {
		f.problem(address, x.temporal.Error(),
			"check temporal.address, namespace, tls and api_key_file in the file, and that the server runs")
		return
	}
	f.ok(address, fmt.Sprintf("answers, and has the namespace %s", namespace))
}
