package temporal_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	sdk "go.temporal.io/sdk/temporal"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/temporal"
)

// A downstream is what the lock protects: a service that remembers the largest
// token that it has seen, and refuses writes with an older one. Processes reach it
// over HTTP.
type downstream struct {
	url string

	mu      sync.Mutex
	highest lockguard.Token
	words   []word
	gates   map[string]chan struct{}
	heard   func(w word) // each word, before it is answered
}

// A word is what a worker tells the downstream.
type word struct {
	What    string // enter, write and leave; others are for the test
	Worker  string
	Key     string // of the activity
	Attempt int32
	Token   lockguard.Token
	Cause   string `json:",omitempty"`
	Refused bool   // a write
}

func newDownstream(t *testing.T) *downstream {
	t.Helper()
	d := &downstream{gates: make(map[string]chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /words", func(w http.ResponseWriter, r *http.Request) {
		var said word
		if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(d.hear(said))
	})
	mux.HandleFunc("GET /gates/{name}", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-d.gate(r.PathValue("name")):
		case <-r.Context().Done():
		}
	})
	server := httptest.NewServer(mux)
	d.url = server.URL
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if t.Failed() {
			for _, said := range d.said("") {
				t.Logf("%+v", said)
			}
		}
	})
	return d
}

func (d *downstream) hear(said word) word {
	d.mu.Lock()
	if said.What == "write" {
		said.Refused = said.Token < d.highest
		d.highest = max(d.highest, said.Token)
	}
	d.words = append(d.words, said)
	heard := d.heard
	d.mu.Unlock()
	if heard != nil {
		heard(said)
	}
	return said
}

// said returns the words of a kind; "": all.
func (d *downstream) said(what string) []word {
	d.mu.Lock()
	defer d.mu.Unlock()
	words := slices.Clone(d.words)
	return slices.DeleteFunc(words, func(w word) bool { return what != "" && w.What != what })
}

// awaits returns the first word of a kind that fits.
func (d *downstream) awaits(t *testing.T, what string, fits ...func(word) bool) word {
	t.Helper()
	var found word
	eventually(t, func() bool {
		for _, w := range d.said(what) {
			if !slices.ContainsFunc(fits, func(fits func(word) bool) bool { return !fits(w) }) {
				found = w
				return true
			}
		}
		return false
	}, what)
	return found
}

func by(worker string) func(word) bool { return func(w word) bool { return w.Worker == worker } }

// gate is closed when it is opened.
func (d *downstream) gate(name string) chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gates[name] == nil {
		d.gates[name] = make(chan struct{})
	}
	return d.gates[name]
}

func (d *downstream) open(name string) { close(d.gate(name)) }

// oneAtATime fails the test unless the words tell of critical sections one after
// the other, with tokens that grow; those of workers that were killed have no end.
func (d *downstream) oneAtATime(t *testing.T, killed []string) {
	t.Helper()
	var inside *word
	var last lockguard.Token
	for _, w := range d.said("") {
		switch w.What {
		case "enter":
			require.True(t, inside == nil || slices.Contains(killed, inside.Worker), "%+v while %+v is inside", w, inside)
			require.Greater(t, w.Token, last, "%+v", w)
			inside, last = &w, w.Token
		case "write":
			require.False(t, w.Refused, "%+v", w)
			require.NotNil(t, inside, "%+v", w)
			require.Equal(t, inside.Token, w.Token)
		case "leave":
			require.NotNil(t, inside, "%+v", w)
			require.Equal(t, inside.Token, w.Token)
			inside = nil
		}
	}
}

// A mouth tells a downstream what a worker does.
type mouth struct {
	url, worker string
	client      *http.Client
}

func newMouth(d *downstream, worker string) mouth { return mouthAt(d.url, worker) }

func mouthAt(url, worker string) mouth {
	return mouth{url: url, worker: worker, client: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
}

// say returns whether the word, if it was a write, was refused.
func (m mouth) say(ctx context.Context, said word) (refused bool, err error) {
	said.Worker = m.worker
	text, err := json.Marshal(said)
	if err != nil {
		return false, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.url+"/words", bytes.NewReader(text))
	if err != nil {
		return false, err
	}
	response, err := m.client.Do(request)
	if err != nil {
		return false, err
	}
	defer func() { _ = response.Body.Close() }()
	var answer word
	err = json.NewDecoder(response.Body).Decode(&answer)
	return answer.Refused, err
}

// pass waits until a gate is open.
func (m mouth) pass(ctx context.Context, gate string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+"/gates/"+gate, nil)
	if err != nil {
		return err
	}
	response, err := m.client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// causeOf says in a word why the context of an activity has ended.
func causeOf(ctx context.Context) string {
	cause := context.Cause(ctx)
	switch {
	case errors.As(cause, new(*temporal.SupersededError)), errors.As(cause, new(*serviceerror.NotFound)):
		return "superseded"
	case errors.As(cause, new(*lockguard.PreemptedError)):
		return "preempted"
	case errors.As(cause, new(*lockguard.LostError)):
		return "lost"
	case sdk.IsCanceledError(cause):
		return "canceled"
	case cause == nil:
		return ""
	}
	return cause.Error()
}
