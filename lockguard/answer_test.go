package lockguard

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// An approval takes the lock after the grace of its holder, unless it is by force.
func TestAnswerIsWhatWasDecided(t *testing.T) {
	for word, d := range map[string]opstore.Decision{
		"approved": {Approved: true}, "forced": {Approved: true, Force: true}, "denied": {},
	} {
		d.By, d.Reason = "ana", "because"
		require.Equal(t, Answer{
			Decision: Decision{ID: "w-1", By: "ana", Reason: "because", AfterGrace: word == "approved"},
			Approved: word != "denied",
		}, AnswerOf("w-1", d))
	}
}
