package temporal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// An approval takes the lock after the grace of its holder, unless it is by force.
func TestAnswerIsWhatWasDecided(t *testing.T) {
	for word, d := range map[string]ApprovalDecision{
		"approved": {Approved: true}, "forced": {Approved: true, Force: true}, "denied": {},
	} {
		d.By, d.Reason, d.Person = "ana", "because", true
		require.Equal(t, lockguard.Answer{
			Decision: lockguard.Decision{ID: "w-1", By: "ana", Reason: "because", AfterGrace: word == "approved"},
			Approved: word != "denied", Person: true,
		}, answerOf("w-1", d))
	}
}
