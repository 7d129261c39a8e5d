package priority

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Millis is a duration that JSON has in whole milliseconds.
type Millis time.Duration

// MarshalJSON writes whole milliseconds.
func (d Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendInt(nil, time.Duration(d).Milliseconds(), 10), nil
}

// UnmarshalJSON reads what MarshalJSON writes; a negative duration is an error.
func (d *Millis) UnmarshalJSON(data []byte) error {
	var ms int64
	if err := json.Unmarshal(data, &ms); err != nil || ms > math.MaxInt64/int64(time.Millisecond) || ms < 0 {
		return fmt.Errorf("%s is no timeout; write how many milliseconds", data)
	}
	*d = Millis(time.Duration(ms) * time.Millisecond)
	return nil
}
