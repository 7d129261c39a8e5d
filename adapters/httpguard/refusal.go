package httpguard

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Refuse answers a request that did not get its lock, or that was interrupted,
// with a status and a problem document: 423 when another holder has the lock, 503
// when ZooKeeper does not answer and after an interruption, 500 for a
// requirement that can never work. Clients are not told who has the lock.
func Refuse(w http.ResponseWriter, _ *http.Request, err error) {
	status, detail := explain(err)
	writeProblem(w, status, detail)
}

func explain(err error) (status int, detail string) {
	switch {
	case errors.As(err, new(*lockguard.RequestError)), errors.As(err, new(*lockguard.UpgradeError)):
		return http.StatusInternalServerError, "the lock of this request is declared in a way that cannot work"
	case errors.As(err, new(*lock.UnavailableError)):
		return http.StatusServiceUnavailable, "the locks cannot be reached; try again later"
	case lock.IsNotAcquired(err), priority.CauseOf(err).Kind == priority.KindEvicted:
		return http.StatusLocked, "somebody else is at it; try again later"
	}
	return http.StatusServiceUnavailable, "the request was interrupted; try again later"
}

// problemDocument is what RFC 9457 calls a problem detail.
type problemDocument struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
}

func writeProblem(w http.ResponseWriter, status int, detail string) {
	body, err := json.Marshal(problemDocument{http.StatusText(status), status, detail})
	if err != nil {
		body = nil // two texts and a number
	}
	header := w.Header()
	header.Del("Content-Length") // of a response that the handler did not write
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
