package lock

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/priority"
)

// Whatever the record says, and whatever a later version adds to it: each member
// may be there or not.
func TestRecordsAreWrittenAsEncodingJSONWritesThem(t *testing.T) {
	texts := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z:<>&"\\/ ~\x7f-\x{a0}\x{2028}\x{2029}]*`), rapid.Just("a\xffb"), rapid.Just("h3:811"))
	var fill func(t *rapid.T, v reflect.Value, name string)
	fill = func(t *rapid.T, v reflect.Value, name string) {
		if rapid.Bool().Draw(t, name+" is empty") {
			return
		}
		switch v.Interface().(type) {
		case priority.Mode:
			v.Set(reflect.ValueOf(rapid.SampledFrom([]priority.Mode{priority.Exclusive, priority.Shared}).Draw(t, name)))
			return
		case priority.Reason:
			v.Set(reflect.ValueOf(rapid.SampledFrom([]priority.Reason{priority.Outranked, priority.LeaseExpired}).Draw(t, name)))
			return
		}
		switch v.Kind() {
		case reflect.String:
			v.SetString(texts.Draw(t, name))
		case reflect.Bool:
			v.SetBool(true)
		case reflect.Int, reflect.Int32:
			v.SetInt(int64(rapid.Int32().Draw(t, name)))
		case reflect.Int64:
			v.SetInt(rapid.Int64().Draw(t, name))
		case reflect.Pointer:
			v.Set(reflect.New(v.Type().Elem()))
			fill(t, v.Elem(), name)
		case reflect.Slice:
			v.Set(reflect.MakeSlice(v.Type(), rapid.IntRange(0, 2).Draw(t, name), 2))
			for i := range v.Len() {
				fill(t, v.Index(i), name)
			}
		case reflect.Struct:
			for i := range v.NumField() {
				if field := v.Type().Field(i); field.IsExported() {
					fill(t, v.Field(i), name+"."+field.Name)
				}
			}
		default:
			t.Fatalf("%s is a %s: teach this test, and encodeContender", name, v.Kind())
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		var rec contenderRecord
		v := reflect.ValueOf(&rec).Elem()
		for i := range v.NumField() {
			if field := v.Type().Field(i); field.IsExported() {
				fill(t, v.Field(i), field.Name)
			}
		}
		want, err := json.Marshal(rec)
		require.NoError(t, err)
		require.Equal(t, string(want), string(encodeContender(&rec)))
	})
}

func TestARecordTakesOneAllocation(t *testing.T) {
	rec := newRecord(unconnected(t), Request{Identity: priority.Identity{Owner: strings.Repeat("owner", 40), Message: "nightly", Class: "tenant/{id}"}})
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() { encodeContender(&rec) }), 1.0)
}
