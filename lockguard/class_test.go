package lockguard

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/priority"
)

func TestScopeHasTheFirstClassThatItFits(t *testing.T) {
	all := classes{}
	for _, text := range []string{"tenant/admin/billing", "tenant/{id}/billing", "{a}/{b}", "report"} {
		class, err := parseClass(text)
		require.NoError(t, err)
		all = append(all, class)
	}
	for scope, want := range map[string]string{
		"tenant/admin/billing":   "tenant/admin/billing",
		"tenant/7/billing":       "tenant/{id}/billing",
		"tenant/7/8/billing":     "",
		"tenant/7/billing/x":     "",
		"tenant/7":               "{a}/{b}",
		"tenant":                 "",
		"report":                 "report",
		"reports":                "",
		"":                       "",
		"tenant/{id}/billing":    "tenant/{id}/billing",
		"tenant/7/billing/extra": "",
	} {
		require.Equal(t, want, all.of(scope), "%q", scope)
	}
}

func TestWhatIsNoTemplateIsNoClass(t *testing.T) {
	for _, text := range []string{"", "a//b", "/a", "a/", "a/x{id}", "a/{}", "a/{id", "a/{{id}}", "a\x01", strings.Repeat("x", priority.MaxClass+1)} {
		_, err := newGuard(&fakeLocker{}, WithClasses("fine", text))
		require.ErrorContains(t, err, "lockguard: WithClasses: ", "%q", text)
		require.ErrorAs(t, err, new(*RequestError))
	}
}

func TestClassIsInEveryEventAndInTheRequest(t *testing.T) {
	for name, c := range map[string]struct {
		requirement Requirement
		want        string
	}{
		"set":      {Requirement{Scope: "tenant/7/billing", Class: "billing"}, "billing"},
		"declared": {Requirement{Scope: "tenant/7/billing"}, "tenant/{id}/billing"},
		"unknown":  {Requirement{Scope: "tenant/7"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSetup(t, WithClasses("tenant/{id}/billing"))
			hold := acquire(t.Context(), t, s, c.requirement)
			require.NoError(t, hold.Release(t.Context()))
			require.Len(t, s.events.list(), 3)
			for _, event := range s.events.list() {
				require.Equal(t, c.want, event.Class, "%T", event)
			}
			require.Equal(t, c.want, s.locker.last().request.Class)
		})
	}
	require.ErrorContains(t, Requirement{Scope: "a", Class: "\x00"}.Validate(), "class: ")
}
