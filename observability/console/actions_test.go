package console

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

func TestDeedIsDoneInTheNameOfWhoHasSignedInForHerReason(t *testing.T) {
	for _, d := range []struct{ target, form, want, back string }{
		{orders, "do=preempt&token=7301444&reason=hotfix", "preempt cluster/orders/resource/users 7301444 force false grace - by ana: hotfix", orders},
		{orders, "do=preempt&token=7301444&reason=hotfix&force=true&grace=30s", "preempt cluster/orders/resource/users 7301444 force true grace 30s by ana: hotfix", orders},
		{orders, "do=break&token=7301444&reason=gone&confirm=cluster/orders/resource/users", "break cluster/orders/resource/users 7301444 by ana: gone", orders},
		{"/overrides", "do=apply&id=INC-1&kind=freeze&scope=db/*&for=2h&reason=disk", "apply INC-1: freeze scope db/*, until 2026-11-21T14:00:00Z by ana: disk", "/overrides"},
		{"/overrides", "do=clear&id=INC-4411&reason=over", "clear INC-4411 by ana: over", "/overrides"},
		{"/approvals", "do=approve&id=a-0000000012&reason=yes", "approved a-0000000012 by ana: yes", "/approvals"},
		{"/approvals", "do=force&id=a-0000000012&reason=now", "forced a-0000000012 by ana: now", "/approvals"},
		{"/approvals", "do=deny&id=a-0000000012&reason=no", "denied a-0000000012 by ana: no", "/approvals"},
		{"/jobs/nightly-compaction", "do=pause&for=2h&reason=disk", "pause nightly-compaction until 14:00:00 by ana: disk", "/jobs/nightly-compaction"},
		{"/jobs/nightly-compaction", "do=resume&reason=fine", "resume nightly-compaction by ana: fine", "/jobs/nightly-compaction"},
		{"/jobs/nightly-compaction", "do=run&reason=now", "run nightly-compaction by ana: now", "/jobs/nightly-compaction"},
	} {
		c, o := signedIn(t)
		answer := ask(t, c, http.MethodPost, d.target, d.form, as("ana", "secret"))
		require.Equal(t, http.StatusSeeOther, answer.StatusCode, "%s: %s", d.form, text(t, answer))
		all := o.all()
		require.Len(t, all, 1, d.form)
		if strings.HasPrefix(d.want, "apply") {
			require.Contains(t, all[0], "INC-1")
			require.Contains(t, all[0], "by ana: disk")
		} else {
			require.Equal(t, d.want, all[0])
		}
		to, done, _ := strings.Cut(answer.Header.Get("Location"), "?done=")
		require.Equal(t, d.back, to)
		require.NotEmpty(t, done)
		require.Contains(t, text(t, ask(t, c, http.MethodGet, answer.Header.Get("Location"), "")), "It is done.")
	}
}

func TestDeedThatLacksSomethingIsNotDoneAndTheFormKeepsWhatWasWritten(t *testing.T) {
	for form, want := range map[string]string{
		"do=break&token=7301444&reason=gone&confirm=cluster/orders":             "is not the name of the lock",
		"do=break&token=7301444&confirm=cluster/orders/resource/users&reason=+": "write why, for those who look at the record",
		"do=break&reason=kept&confirm=cluster/orders/resource/users":            "token",
		"do=break&token=x&reason=kept&confirm=cluster/orders/resource/users":    "is not a whole number",
		"do=preempt&token=7301444&reason=kept&grace=30s":                        "has no meaning without force",
		"do=preempt&token=7301444&reason=kept&more=1":                           "means nothing here",
		"do=preempt&token=7301444&reason=kept&reason=twice":                     "is given 2 times",
		"do=preempt&token=7301444&reason=" + strings.Repeat("a", maxText+1):     "is longer than",
	} {
		c, o := signedIn(t)
		answer := ask(t, c, http.MethodPost, orders, form, as("ana", "secret"))
		page := text(t, answer)
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, form)
		require.Contains(t, page, want, form)
		require.Contains(t, page, `id="act"`, "the form is open still")
		if strings.Contains(form, "reason=kept") && !strings.Contains(form, "twice") {
			require.Contains(t, page, `value="kept"`)
		}
		require.Empty(t, o.all(), form)
	}
}

func TestActionsNeedASignInAndAConsoleThatAllowsThem(t *testing.T) {
	c, o := signedIn(t)
	looks := newConsole(t, Options{})
	for _, d := range []struct{ target, form string }{
		{orders, "do=preempt&token=7301444&reason=x"},
		{orders, "do=break&token=7301444&reason=x&confirm=cluster/orders/resource/users"},
		{"/overrides", "do=clear&id=INC-4411&reason=x"},
		{"/approvals", "do=force&id=a-1&reason=x"},
		{"/jobs/nightly-compaction", "do=run&reason=x"},
	} {
		answer := ask(t, c, http.MethodPost, d.target, d.form)
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode, d.form)
		require.Contains(t, text(t, answer), "/sign-in")
		answer = ask(t, looks, http.MethodPost, d.target, d.form)
		require.Equal(t, http.StatusForbidden, answer.StatusCode, d.form)
		require.Contains(t, text(t, answer), "console: {actions: true", "it says what to configure")
	}
	for _, r := range c.routes() {
		if r.method != http.MethodPost {
			continue
		}
		target := strings.NewReplacer("{scope}", "a", "{name}", "a", "{id}", "a").Replace(r.path)
		answer := ask(t, c, r.method, target, `{"reason":"x"}`)
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode, target)
		answer = ask(t, looks, r.method, target, `{"reason":"x"}`)
		require.Equal(t, http.StatusForbidden, answer.StatusCode, target)
	}
	require.Empty(t, o.all())
}

func TestDeedWhoseFieldsAreOfAnotherTypeThanTheOpenAPIFileSaysIsNotDone(t *testing.T) {
	c, o := signedIn(t)
	for body, want := range map[string]string{
		`{"reason":1}`:                  "reason: is not of the type string",
		`{"reason":true}`:               "reason: is not of the type string",
		`{"reason":["x"]}`:              "reason: is not of the type string",
		`{"reason":{}}`:                 "reason: is not of the type string",
		`{"reason":"x","force":"yes"}`:  "force: is not of the type boolean",
		`{"reason":"x","token":true}`:   "token: is not of the type integer or string",
		`{"reason":"x","grace":5}`:      "grace: is not of the type string",
		`{"reason":"\u0000","force":1}`: "force: is not of the type boolean",
	} {
		answer := ask(t, c, http.MethodPost, "/api/v1/locks/a%2Fb/preempt", body, as("ana", "secret"), asJSON)
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, body)
		var p problem
		require.NoError(t, json.Unmarshal([]byte(text(t, answer)), &p))
		require.Equal(t, want, p.Detail)
		told := map[string]bool{}
		for _, f := range p.Problems {
			require.False(t, told[f.Field], "%s: %s is reported twice: %v", body, f.Field, p.Problems)
			told[f.Field] = true
		}
	}
	require.Empty(t, o.all())
}

func TestBoundsOfADurationAreWrittenSoThatTheyAreUnderstood(t *testing.T) {
	p := &params{values: url.Values{"for": {"400d"}}}
	require.Nil(t, p.maybeDuration("for", time.Second, longest))
	require.Equal(t, []fieldProblem{{"for", `"400d" is not a duration from 1s to 8784h; write it like 30s, 10m or 2h`}}, p.problems)
	for _, d := range []time.Duration{0, time.Second, 90 * time.Second, 10 * time.Minute, time.Hour, 90 * time.Minute, longest} {
		p = &params{values: url.Values{"for": {words.Duration(d)}}}
		read := p.maybeDuration("for", 0, longest)
		require.NotNil(t, read, words.Duration(d))
		require.Equal(t, d, *read)
	}
	require.Equal(t, "1h30m", words.Duration(90*time.Minute))
}

func TestDeedThatFailsSaysWhyAndWhatIsNext(t *testing.T) {
	for _, f := range []struct {
		err    error
		status int
		want   string
	}{
		{&lock.StaleTokenError{Scope: "cluster/orders", Token: 5}, http.StatusConflict, "look at the lock as it is now"},
		{&lock.IdentityError{What: "lock not broken"}, http.StatusForbidden, "operators"},
		{&opstore.NoOverrideError{ID: "INC-1"}, http.StatusNotFound, ""},
		{&opstore.NoApprovalError{ID: "w-1", Workflow: true}, http.StatusNotFound, "has got its lock, or was given up"},
		{&NotKnownError{What: `there is no job "unknown"`}, http.StatusNotFound, "there is no job"},
		{errors.New("the disk has gone"), http.StatusInternalServerError, "the disk has gone"},
	} {
		c, o := signedIn(t)
		o.err = f.err
		answer := ask(t, c, http.MethodPost, orders, "do=preempt&token=7301444&reason=kept", as("ana", "secret"))
		page := text(t, answer)
		require.Equal(t, f.status, answer.StatusCode)
		require.Contains(t, page, f.want)
		require.Contains(t, page, `value="kept"`)

		answer = ask(t, c, http.MethodPost, "/api/v1/locks/a%2Fb/preempt", `{"reason":"x"}`, as("ana", "secret"), asJSON)
		require.Equal(t, f.status, answer.StatusCode)
		var p problem
		require.NoError(t, json.Unmarshal([]byte(text(t, answer)), &p))
		require.NotEmpty(t, p.Detail)
	}
}

func TestDeedThatMayHaveBeenDoneAllTheSameSaysSo(t *testing.T) {
	silent := &lock.UnavailableError{Servers: []string{"zk-1:2181"}}
	for _, f := range []struct {
		name   string
		act    string
		err    error
		status int
		title  string
		next   string
	}{
		{"nothing was begun", "", silent, http.StatusServiceUnavailable, "ZooKeeper does not answer", "try again"},
		{"no answer", "act-9", silent, http.StatusServiceUnavailable, "Perhaps done", "it is on record as act-9"},
		{"out of time", "act-9", fmt.Errorf("clearing: %w", context.DeadlineExceeded), http.StatusServiceUnavailable, "Perhaps done", "it is on record as act-9"},
		{"ZooKeeper has said no", "act-9", &opstore.NoOverrideError{ID: "INC-1"}, http.StatusNotFound, "No such override or approval", ""},
	} {
		t.Run(f.name, func(t *testing.T) {
			c, o := signedIn(t)
			o.err, o.begun = f.err, f.act

			// when
			answer := ask(t, c, http.MethodPost, "/api/v1/overrides/INC-1/clear", `{"reason":"x"}`, as("ana", "secret"), asJSON)
			page := text(t, ask(t, c, http.MethodPost, "/overrides", "do=clear&id=INC-1&reason=x", as("ana", "secret")))

			// then
			require.Equal(t, f.status, answer.StatusCode)
			var p problem
			require.NoError(t, json.Unmarshal([]byte(text(t, answer)), &p))
			require.Equal(t, f.title, p.Title)
			require.Equal(t, f.act, p.Act)
			require.Contains(t, p.Next, f.next)
			require.Equal(t, f.title == "Perhaps done", strings.Contains(page, "<strong>Perhaps done: "))
			require.NotEqual(t, f.title == "Perhaps done", strings.Contains(page, "<strong>Not done: "))
			require.Contains(t, page, f.next)
		})
	}
}

func TestOverrideForEverythingIsConfirmedWithHowManyItMeets(t *testing.T) {
	const form = "do=apply&id=INC-1&kind=freeze&for=10s&reason=kept"
	c, o := signedIn(t)
	for _, whom := range []string{"", "&scope=*", "&job=*", "&below=10"} {
		// when the request does not say that all are meant
		answer := ask(t, c, http.MethodPost, "/overrides", form+whom, as("ana", "secret"))
		page := text(t, answer)

		// then
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
		require.Contains(t, page, `id="all-wrong">is missing: neither a scope nor a job limits this freeze, and it would match everything`)

		// when that is said
		answer = ask(t, c, http.MethodPost, "/overrides", form+whom+"&all=true", as("ana", "secret"))
		page = text(t, answer)

		// then it is asked
		require.Equal(t, http.StatusOK, answer.StatusCode)
		require.Contains(t, page, "INC-1 (freeze) matches everything: 17 requests now, and later ones")
		require.Contains(t, page, `<input type="hidden" name="confirm" value="true">`)
		require.Contains(t, page, `value="kept"`)
		require.Empty(t, o.all())
	}

	// when
	answer := ask(t, c, http.MethodPost, "/overrides", form+"&all=true&confirm=true", as("ana", "secret"))

	// then
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Len(t, o.all(), 1)

	// and a scope and all do not go together
	answer = ask(t, c, http.MethodPost, "/overrides", form+"&all=true&scope=db/*", as("ana", "secret"))
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	require.Contains(t, text(t, answer), "is more than the scope or the job says")
	require.Len(t, o.all(), 1)
}

func TestOverrideForEverythingNeedsThatInJSON(t *testing.T) {
	c, o := signedIn(t)
	post := func(body string) *http.Response {
		return ask(t, c, http.MethodPost, "/api/v1/overrides", body, as("ana", "secret"), asJSON)
	}
	for body, want := range map[string]string{
		`{"reason":"x","id":"A","kind":"freeze","for":"10s"}`:                             "all: is missing",
		`{"reason":"x","id":"A","kind":"pause","for":"10s","all":false}`:                  "all: is missing",
		`{"reason":"x","id":"A","kind":"freeze","for":"10s","all":"true"}`:                "all: is not of the type boolean",
		`{"reason":"x","id":"A","kind":"freeze","for":"10s","all":true,"scope":"db"}`:     "all: is more than the scope or the job says",
		`{"reason":"x","id":"A","kind":"freeze","for":"10s","all":true,"confirm":"true"}`: "confirm: means nothing here",
	} {
		answer := post(body)
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, body)
		var p problem
		require.NoError(t, json.Unmarshal([]byte(text(t, answer)), &p))
		require.Contains(t, p.Detail, want, body)
	}
	require.Empty(t, o.all())
	require.Equal(t, http.StatusOK, post(`{"reason":"x","id":"A","kind":"freeze","for":"10s","all":true}`).StatusCode)
	require.Len(t, o.all(), 1)
}
