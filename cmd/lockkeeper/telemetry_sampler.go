package main

import (
	"fmt"
	"strconv"
	"strings"

	sdk "go.opentelemetry.io/otel/sdk/trace"

	"github.com/lockkeeper/lockkeeper/observability/traces/sampling"
)

// samplerOf returns the sampler that OTEL_TRACES_SAMPLER and its argument name, which
// keeps contention besides, unless it is to keep nothing at all. It returns the
// default with an error.
func samplerOf(name, arg string) (sdk.Sampler, error) {
	name = strings.ToLower(strings.TrimSpace(name))
	root, based := strings.CutPrefix(name, "parentbased_")
	var sampler sdk.Sampler
	var err error
	switch root {
	case "always_on":
		sampler = sdk.AlwaysSample()
	case "always_off":
		sampler = sdk.NeverSample()
	case "traceidratio":
		var ratio float64
		if ratio, err = ratioOf(arg); err == nil {
			sampler = sdk.TraceIDRatioBased(ratio)
		}
	case "":
	default:
		err = fmt.Errorf(
			"OTEL_TRACES_SAMPLER: %q is not known; write always_on, always_off, traceidratio, or parentbased_ and one of them",
			name)
	}
	switch {
	case sampler == nil:
		sampler = sdk.ParentBased(sdk.AlwaysSample())
	case based:
		sampler = sdk.ParentBased(sampler)
	case root == "always_off":
		return sampler, nil
	}
	return sampling.ContentionSampler(sampler), err
}

func ratioOf(arg string) (float64, error) {
	if arg = strings.TrimSpace(arg); arg == "" {
		return 1, nil
	}
	ratio, err := strconv.ParseFloat(arg, 64)
	if err != nil || ratio < 0 || ratio > 1 {
		return 0, fmt.Errorf("OTEL_TRACES_SAMPLER_ARG: %q is not a number from 0 to 1; every trace is kept", arg)
	}
	return ratio, nil
}
