package recipes

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRefusalNamesTheHolderAndWhatIsKnownOfIt(t *testing.T) {
	t.Parallel()
	for want, holder := range map[string]Contender{
		`lock "orders" not acquired: held by "ann:1"`:                                       {ID: "_c_5-lock-0000000000", Owner: "ann:1"}, // of a classic recipe
		`lock "orders" not acquired: held by "ann" (priority 0, host here, pid 1, token 7)`: {Owner: "ann", Host: "here", PID: 1, Token: 7},
		`lock "orders" not acquired: held by "ann" (priority 5)`:                            {Owner: "ann", Priority: 5},
	} {
		require.EqualError(t, &NotAcquiredError{Scope: "orders", Holders: []Contender{holder}}, want)
	}
}
