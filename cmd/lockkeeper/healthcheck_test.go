package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHealthcheckAsksOnThisMachineWhereTheFileListens(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		":9464":            "http://127.0.0.1:9464",
		"0.0.0.0:9464":     "http://127.0.0.1:9464",
		"[::]:9464":        "http://127.0.0.1:9464",
		"[::1]:9464":       "http://[::1]:9464",
		"127.0.0.1:9464":   "http://127.0.0.1:9464",
		"10.0.0.7:9464":    "http://10.0.0.7:9464",
		"db1.example:9464": "http://db1.example:9464",
	} {
		require.Equal(t, want, loopback(listen).String(), listen)
	}
	for _, listen := range []string{"", ":0", "127.0.0.1:0"} {
		require.Nil(t, loopback(listen), listen)
	}
}

func TestHealthcheckSaysWhatTheDaemonAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ready      bool
		status     int
		body       string
		want, fail string
	}{
		{false, 200, `{"status":"ok","zookeeper":"connected"}`, "alive: ok, ZooKeeper connected", ""},
		{false, 200, `{"status":"draining","zookeeper":"unreachable","error":"refused"}`, "alive: draining, ZooKeeper unreachable: refused", ""},
		{false, 500, `{"status":"ok"}`, "", "/healthz: the answer, with status 500, is not that of a daemon"},
		{false, 200, `<html>`, "", "/healthz: the answer, with status 200, is not that of a daemon"},
		{false, 302, ``, "", "/healthz: the answer, with status 302, is not that of a daemon"},
		{true, 200, `{"ready":true,"reasons":[]}`, "ready", ""},
		{true, 200, `{"ready":true,"reasons":[],"warnings":[{"check":"clock","reason":"it is 3s ahead"}]}`, "ready, but clock: it is 3s ahead", ""},
		{true, 503, `{"ready":false,"reasons":[{"check":"session","reason":"none"},{"check":"draining","reason":"it drains"}]}`, "", "/readyz: not ready: session: none; draining: it drains"},
		{true, 200, `{"ready":false,"reasons":[]}`, "", "/readyz: the answer, with status 200, is not that of a daemon"},
		{true, 404, `{}`, "", "/readyz: the answer, with status 404, is not that of a daemon"},
	} {
		t.Run(fmt.Sprint(c.status, c.body), func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				want := "/healthz"
				if c.ready {
					want = "/readyz"
				}
				if r.URL.Path != want {
					t.Errorf("asked for %s", r.URL.Path)
				}
				w.Header().Set("Location", "/healthz")
				w.WriteHeader(c.status)
				_, _ = fmt.Fprint(w, c.body)
			}))
			defer server.Close()
			base, err := url.Parse(server.URL)
			require.NoError(t, err)
			said, err := askHealth(t.Context(), base, c.ready)
			require.Equal(t, c.want, said)
			if c.fail != "" {
				require.EqualError(t, err, server.URL+c.fail)
			} else {
				require.NoError(t, err)
			}
		})
	}
}
