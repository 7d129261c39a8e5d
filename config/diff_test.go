package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/jobs"
)

func TestDiffOfWork(t *testing.T) {
	for name, c := range map[string]struct {
		from, to string
		want     string
	}{
		"the same command":        {"run: [x]", "run: {command: [x]}", ""},
		"another argument":        {"run: [x]", "run: [x, y]", "run"},
		"another variable":        {"run: {command: [x], env: {A: b}}", "run: {command: [x], env: {A: c}}", "run"},
		"the same function":       {"run: go:reindex", "run: go:reindex", ""},
		"another function":        {"run: go:reindex", "run: go:vacuum\nlocks: [{scope: s, cleanup_timeout: 1s}]", "run, locks"},
		"the same cleanup":        {"run: {command: [x], cleanup: [y]}\nlocks: [{scope: s}]", "run: {command: [x], cleanup: [y]}\nlocks: [{scope: s}]", ""},
		"another cleanup":         {"run: {command: [x], cleanup: [y]}\nlocks: [{scope: s}]", "run: {command: [x], cleanup: [z]}\nlocks: [{scope: s}]", "run"},
		"another cleanup timeout": {"locks: [{scope: s}]", "locks: [{scope: s, cleanup_timeout: 1s}]", "locks"},
		"another blackout":        {"blackout: []", "blackout: [{schedule: '@daily', for: 1h}]", "blackout"},
		"another retry":           {"retry: 1", "retry: {max: 2, initial: 1s}", "retry (1 → 2 initial 1s)"},
		"another misfire":         {"misfire: once", "misfire: {policy: all, window: 1h, max: 3}", "misfire (once → all window 1h max 3)"},
		"another zone":            {"", "timezone: Europe/Berlin", "timezone (UTC → Europe/Berlin)"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, changed := range Compare(mustParse(t, job(c.from)), mustParse(t, job(c.to))).Changed {
				got = append(got, joinChanges(changed.Fields))
			}
			require.Equal(t, c.want, strings.Join(got, ""))
		})
	}
}

// A field that Compare does not know would be a change without a name.
func TestEveryFieldOfAJobIsCompared(t *testing.T) {
	for field := range reflect.TypeFor[jobs.Job]().Fields() {
		if field.Name == "Name" || field.Name == "Work" {
			continue
		}
		from, to := mustParse(t, job("")), mustParse(t, job(""))
		fill(reflect.ValueOf(&to.Jobs[0]).Elem().FieldByName(field.Name))

		changed := Compare(from, to).Changed

		require.Len(t, changed, 1, field.Name)
		require.NotEqual(t, "job", changed[0].Fields[0].Field, field.Name)
		require.Contains(t, jobShape.names(), changed[0].Fields[0].Field, field.Name)
	}
}

// fill makes a value another one than it was.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "x")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.Zero(v.Type().Key()), reflect.Zero(v.Type().Elem()))
	case reflect.Struct:
		fill(v.Field(0))
	default:
		v.SetInt(v.Int() + 1)
	}
}

// A key that Compare does not know would change without a word.
func TestEveryKeyOutsideOfJobsIsCompared(t *testing.T) {
	inJobs := []string{"version", "defaults", "jobs", "drain_timeout", "preempt_delta"} // or part of another key
	for _, s := range []*shape{
		&fileShape, &zookeeperShape, &temporalShape, &prioritiesShape, &schedulerShape, &drainShape,
		&emergencyShape, &approvalsShape, &auditShape, &metricsShape, &consoleShape, &logShape,
	} {
		for _, k := range s.keys {
			require.Equal(t, slices.Contains(inJobs, k.name), k.compare == nil, "%s of %s", k.name, s.name)
		}
	}
}
