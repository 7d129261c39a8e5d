package jobs

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A Fingerprinter is Work that can say what it does, so that two daemons see
// whether they mean the same job by one name. Work without it counts as code: any
// two are alike.
type Fingerprinter interface {
	// Fingerprint returns what the work does, in words. Only a hash of it is kept.
	Fingerprint() []string
}

// fingerprintVersion is changed with what goes into a fingerprint. The ledger does
// not compare those of different versions.
const fingerprintVersion = "1-"

// Fingerprint tells this definition of a job from another one of its name: a
// version and a hash of what the job does and when. That is its work (the program
// and its arguments and directory, or the method, URL and body of its request),
// its schedule, its time zone, and the scopes and modes of its locks. Timeouts,
// policies, priorities, blackouts, labels, the environment and credentials are not
// in it: daemons may differ in them.
func (j Job) Fingerprint() string {
	work := []string{"code"}
	if w, ok := j.Work.(Fingerprinter); ok {
		work = w.Fingerprint()
	}
	locks := make([]string, 0, len(j.Requirements))
	for _, r := range j.Requirements {
		locks = append(locks, r.Mode.String()+" "+r.Scope)
	}
	slices.Sort(locks)
	// strings alone
	text, _ := json.Marshal([]any{work, strings.Join(strings.Fields(j.Schedule), " "), cmp.Or(j.TimeZone, "UTC"), locks})
	hash := sha256.Sum256(text)
	return fingerprintVersion + hex.EncodeToString(hash[:8])
}

// Fingerprint says which program runs, with which arguments, and where.
func (c Command) Fingerprint() []string {
	return append([]string{"command", c.Dir}, c.Argv...)
}

// Fingerprint says what is sent where. A user and a password in the URL are left out.
func (h HTTP) Fingerprint() []string {
	address := h.URL
	if u, err := url.Parse(h.URL); err == nil {
		u.User = nil
		address = u.String()
	}
	return []string{"http", cmp.Or(h.Method, http.MethodPost), address, string(h.Body)}
}
