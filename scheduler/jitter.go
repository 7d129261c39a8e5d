package scheduler

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"strconv"
	"time"
)

// jitterOf returns how long the tick of a job is delayed: at least 0, less than
// upTo, spread evenly, and the same in all daemons.
func jitterOf(job string, instant time.Time, upTo time.Duration) time.Duration {
	if upTo <= 0 {
		return 0
	}
	return time.Duration(stableNumber(uint64(upTo), job, strconv.FormatInt(instant.Unix(), 10)))
}

// stableNumber returns a number below n that is the same for the same words, on
// all machines and for ever: what it decides is in the ledger.
func stableNumber(n uint64, words ...string) uint64 {
	hash := sha256.New()
	for _, word := range words {
		hash.Write([]byte(word))
		hash.Write([]byte{0}) // "a", "bc" is not "ab", "c"
	}
	fraction := binary.BigEndian.Uint64(hash.Sum(nil))
	number, _ := bits.Mul64(fraction, n)
	return number
}
