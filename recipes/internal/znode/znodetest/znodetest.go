package znodetest

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/internal/znode"
)

// CheckRefusal looks at an error about data, which any client may have written.
func CheckRefusal(t *testing.T, data []byte, err error) {
	t.Helper()
	CheckRefusalUpTo(t, znode.RecordFormat, data, err)
}

// CheckRefusalUpTo is CheckRefusal for records of any format up to the newest.
func CheckRefusalUpTo(t *testing.T, newest int, data []byte, err error) {
	t.Helper()
	require.NotEmpty(t, err.Error())
	require.Less(t, len(err.Error()), 1000)
	if bad, ok := errors.AsType[*znode.RecordError](err); ok {
		require.Equal(t, bad.Format == 0, bad.Err != nil)
		told := znode.InNode(err, "/lockkeeper/x")
		require.ErrorContains(t, told, "/lockkeeper/x")
	}
	require.Equal(t, newerFormat(newest, data), znode.IsNewer(err), "%v", err)
}

// newerFormat reports whether data is an object that says it is of a later
// format.
func newerFormat(newest int, data []byte) bool {
	var its struct {
		Format json.RawMessage `json:"format"`
	}
	if json.Unmarshal(data, &its) != nil || strings.Trim(string(its.Format), "0123456789") != "" || len(its.Format) > 18 {
		return false
	}
	return len(its.Format) > 1 || len(its.Format) == 1 && int(its.Format[0]-'0') > newest
}

// SequenceName is how ZooKeeper writes a sequence number.
func SequenceName(n int32) string {
	sign := ""
	magnitude := int64(n)
	if n < 0 {
		sign, magnitude = "-", -magnitude
	}
	digits := strconv.FormatInt(magnitude, 10)
	return sign + strings.Repeat("0", max(0, 10-len(sign)-len(digits))) + digits
}
