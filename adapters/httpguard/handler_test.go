package httpguard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/lockkeeper/lockkeeper/adapters/httpguard"
	"github.com/lockkeeper/lockkeeper/adapters/internal/guardtest"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/zktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// get asks for path, and returns the answer when there is one.
func get(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	return w
}

func requireProblem(t *testing.T, status int, w *httptest.ResponseRecorder) {
	t.Helper()
	require.Equal(t, status, w.Code)
	require.Equal(t, "application/problem+json", w.Header().Get("Content-Type"))
	var problem map[string]any
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &problem))
	require.EqualValues(t, status, problem["status"])
	require.Equal(t, http.StatusText(status), problem["title"])
	require.NotEmpty(t, problem["detail"])
}

var wait = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })

func TestRequestRunsUnderItsLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		guard := guardtest.New(t, zktest.RunT(t, zktest.Pipe()), "http")
		h := httpguard.Handler(guard, lockguard.Requirement{Scope: "s"}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			hold, ok := lockguard.FromContext(r.Context())
			if !ok || hold.Check() != nil {
				http.Error(w, "not under the lock", http.StatusInternalServerError)
				return
			}
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, "made")
		}))

		for range 2 { // the lock is free again
			// when
			w := get(t, h, "/")

			// then
			require.Equal(t, http.StatusCreated, w.Code)
			require.Equal(t, "made", w.Body.String())
		}
	})
}

func TestSecondRequestIsLockedOut(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		var served atomic.Int32
		busy := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1); time.Sleep(time.Minute) })
		first := httpguard.Handler(guardtest.New(t, zk, "one"), lockguard.Requirement{Scope: "s"}, busy)
		second := httpguard.Handler(guardtest.New(t, zk, "two"), lockguard.Requirement{Scope: "s"}, busy, httpguard.WithRetryAfter(1500*time.Millisecond))
		go get(t, first, "/")
		time.Sleep(time.Second) // of the bubble: it holds the lock now

		// when
		w := get(t, second, "/")

		// then
		requireProblem(t, http.StatusLocked, w)
		require.Equal(t, "2", w.Header().Get("Retry-After"))
		require.EqualValues(t, 1, served.Load())
		time.Sleep(time.Minute)
	})
}

func TestRequestWaitsAsLongAsItsAcquireTimeoutSays(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		short := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })
		h := httpguard.Handler(guardtest.New(t, zk, "one"), lockguard.Requirement{Scope: "s", Terms: priority.Terms{AcquireTimeout: new(1500 * time.Millisecond)}}, short)
		answers := make(chan int, 3)

		// when
		for range 3 {
			go func() { answers <- get(t, h, "/").Code }()
		}

		// then
		require.ElementsMatch(t, []int{http.StatusOK, http.StatusOK, http.StatusLocked}, []int{<-answers, <-answers, <-answers})
	})
}

func TestScopeComesFromTheRequest(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		h := httpguard.HandlerFor(guardtest.New(t, zk, "http"), func(r *http.Request) ([]lockguard.Requirement, error) {
			if r.URL.Path == "/" {
				return nil, errors.New("which order?")
			}
			return []lockguard.Requirement{{Scope: "orders" + r.URL.Path}}, nil
		}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Minute) }))
		go get(t, h, "/7")
		time.Sleep(time.Second) // of the bubble: it holds the lock now

		// then
		requireProblem(t, http.StatusLocked, get(t, h, "/7"))
		require.Equal(t, http.StatusOK, get(t, h, "/8").Code)
		requireProblem(t, http.StatusBadRequest, get(t, h, "/"))
	})
}

func TestInterruptedRequestThatHasWrittenNothingIsAnswered(t *testing.T) {
	for name, interrupt := range map[string]func(t *testing.T, zk *zktest.Server){
		"preempted": func(t *testing.T, zk *zktest.Server) {
			guardtest.Preempt(t, guardtest.New(t, zk, "operator"))
		},
		"lost": func(_ *testing.T, zk *zktest.Server) { zk.Partition("http") },
	} {
		t.Run(name, func(t *testing.T) {
			guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
				// given
				h := httpguard.Handler(guardtest.New(t, zk, "http"), lockguard.Requirement{Scope: "s"}, wait)
				answer := make(chan *httptest.ResponseRecorder, 1)
				go func() { answer <- get(t, h, "/") }()
				time.Sleep(time.Second) // of the bubble: it holds the lock now

				// when
				interrupt(t, zk)

				// then
				w := <-answer
				requireProblem(t, http.StatusServiceUnavailable, w)
				require.Equal(t, "1", w.Header().Get("Retry-After"))
				zk.Heal("http")
			})
		})
	}
}

func TestResponseThatHasStartedIsLeftAsItIs(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		h := httpguard.Handler(guardtest.New(t, zk, "http"), lockguard.Requirement{Scope: "s"}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "half")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}))
		answer := make(chan *httptest.ResponseRecorder, 1)
		go func() { answer <- get(t, h, "/") }()
		time.Sleep(time.Second) // of the bubble: it holds the lock now

		// when
		guardtest.Preempt(t, guardtest.New(t, zk, "operator"))

		// then
		w := <-answer
		require.Equal(t, http.StatusOK, w.Code)
		require.Equal(t, "half", w.Body.String())
	})
}

func TestSilentZooKeeperIsUnavailable(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		guard := guardtest.New(t, zk, "http")
		require.Equal(t, http.StatusNotFound, get(t, httpguard.Handler(guard, lockguard.Requirement{Scope: "s"}, http.NotFoundHandler()), "/").Code)
		zk.Partition("http")
		time.Sleep(time.Minute)

		// when
		w := get(t, httpguard.Handler(guard, lockguard.Requirement{Scope: "s"}, wait), "/")

		// then
		requireProblem(t, http.StatusServiceUnavailable, w)
		require.Contains(t, w.Body.String(), "cannot be reached")
		zk.Heal("http")
		time.Sleep(time.Minute)
	})
}

func TestRequirementThatCannotWorkIsTheServersFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		var log bytes.Buffer
		h := httpguard.Handler(guardtest.New(t, zktest.RunT(t, zktest.Pipe()), "http"), lockguard.Requirement{Scope: "a//b"}, wait,
			httpguard.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))

		// when
		w := get(t, h, "/")

		// then
		requireProblem(t, http.StatusInternalServerError, w)
		require.NotContains(t, w.Body.String(), "a//b")
		require.Contains(t, log.String(), "a//b")
	})
}

func TestRefusalCanBeWrittenByTheProgram(t *testing.T) {
	guardtest.Run(t, func(t *testing.T, zk *zktest.Server) {
		// given
		h := httpguard.Handler(guardtest.New(t, zk, "http"), lockguard.Requirement{Scope: "s"}, wait,
			httpguard.WithRefusal(func(w http.ResponseWriter, _ *http.Request, err error) {
				require.ErrorAs(t, err, new(*lock.NotAcquiredError))
				w.WriteHeader(http.StatusTeapot)
			}))
		ctx, stop := context.WithCancel(t.Context())
		go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
		time.Sleep(time.Second) // of the bubble: it holds the lock now

		// when
		w := get(t, h, "/")

		// then
		require.Equal(t, http.StatusTeapot, w.Code)
		stop()
		time.Sleep(time.Second)
	})
}

func TestPanicReachesTheServerAfterTheLockIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// given
		var log bytes.Buffer
		guard := guardtest.New(t, zktest.RunT(t, zktest.Pipe()), "http")
		abort := httpguard.Handler(guard, lockguard.Requirement{Scope: "s"}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}), httpguard.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		bug := httpguard.Handler(guard, lockguard.Requirement{Scope: "s"}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			panic("bug")
		}), httpguard.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))

		// then
		require.PanicsWithValue(t, http.ErrAbortHandler, func() { get(t, abort, "/") })
		require.Empty(t, log.String())
		require.PanicsWithValue(t, "bug", func() { get(t, bug, "/") })
		require.Contains(t, log.String(), "handler_test.go", "the stack")
	})
}

// The wrapped writer of a real server keeps what handlers expect of it.
func TestRealServerStreamsAndHandsConnectionsOver(t *testing.T) {
	// given
	guard := guardtest.New(t, zktest.RunT(t), "http")
	var hijacked atomic.Bool
	guarded := httpguard.Handler(guard, lockguard.Requirement{Scope: "s"}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hijack" {
			connection, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				hijacked.Store(true)
				_ = connection.Close()
			}
			return
		}
		_, err := io.Copy(w, strings.NewReader("streamed"))
		if err == nil {
			err = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(time.Minute))
		}
		if err != nil {
			panic(err)
		}
	}))
	var serving sync.WaitGroup // a server does not wait for connections that were handed over
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serving.Add(1)
		defer serving.Done()
		guarded.ServeHTTP(w, r)
	}))
	t.Cleanup(serving.Wait)
	t.Cleanup(server.Close)
	client := server.Client()
	ask := func(path string) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
		require.NoError(t, err)
		return client.Do(r)
	}

	// when
	answer, err := ask("/")
	require.NoError(t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())

	// then
	require.Equal(t, "streamed", string(body))

	// when
	if answer, err := ask("/hijack"); err == nil {
		require.NoError(t, answer.Body.Close())
	}

	// then
	require.True(t, hijacked.Load())
}
