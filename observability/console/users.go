package console

import (
	"bufio"
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// Users are the people of a file as htpasswd -B writes it: a line each, name and
// bcrypt hash with a colon between. The file is read again when it has changed;
// an unusable file lets no user in.
type Users struct {
	file string
	log  *slog.Logger
	now  func() time.Time

	mu      sync.Mutex
	looked  time.Time
	stamp   fileStamp
	hashes  map[string]string
	broken  error
	key     []byte              // of proofs
	proven  map[string]provenBy // passwords that were right lately
	guesses map[string]*guesses // by address and name, by name, and by address
	hashing chan struct{}       // bcrypt costs a processor for a while
}

type fileStamp struct {
	size int64
	at   time.Time
}

type provenBy struct {
	hash  string
	until time.Time
}

const (
	maxUsersFile  = 1 << 20
	maxCost       = 14 // bcrypt: a second and more
	lookAgain     = time.Second
	provenFor     = time.Minute
	maxProven     = 1000
	hashAtOnce    = 2
	dummyPassword = "not the password of any user"
)

// LoadUsers reads a file. An error says all that is wrong with it, by line. A
// logger that is nil is silent, a clock that is nil the system's.
func LoadUsers(file string, logger *slog.Logger, now func() time.Time) (*Users, error) {
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	if now == nil {
		now = time.Now
	}
	u := &Users{
		file: file, log: logger, now: now, key: []byte(rand.Text()), proven: map[string]provenBy{},
		guesses: map[string]*guesses{}, hashing: make(chan struct{}, hashAtOnce),
	}
	u.refreshLocked()
	return u, u.broken
}

// refreshLocked reads the file when it has changed.
func (u *Users) refreshLocked() {
	now := u.now()
	if !u.looked.IsZero() && now.Sub(u.looked) < lookAgain && now.Sub(u.looked) >= 0 {
		return
	}
	first := u.looked.IsZero()
	u.looked = now
	info, err := os.Stat(u.file)
	var stamp fileStamp
	if err == nil {
		stamp = fileStamp{size: info.Size(), at: info.ModTime()}
		if !first && stamp == u.stamp && u.broken == nil {
			return
		}
	}
	u.stamp = stamp
	was := u.broken
	u.hashes, u.broken = readUsers(u.file)
	switch {
	case u.broken != nil && (was == nil || was.Error() != u.broken.Error()) && !first:
		u.log.Error("the users of the console cannot be read; sign-in is disabled", "file", u.file, "error", u.broken)
	case u.broken == nil && !first:
		u.log.Info("the users of the console are read again", "file", u.file, "users", len(u.hashes))
	}
}

func readUsers(name string) (map[string]string, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() && info.Mode()&0o002 != 0 {
		return nil, fmt.Errorf("%s: is writable by all users (%s), who could then sign in under any name; "+
			"look who is in it, then chmod 600 %s", name, info.Mode(), name)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxUsersFile+1))
	if err != nil {
		return nil, err
	}
	return parseUsers(name, data)
}

// parseUsers reads lines of name:hash. Empty ones, and those that begin with #,
// say nothing.
func parseUsers(name string, data []byte) (map[string]string, error) {
	if len(data) > maxUsersFile {
		return nil, fmt.Errorf("%s: is larger than 1 MiB; is it a file of users?", name)
	}
	hashes := map[string]string{}
	var problems []error
	bad := func(line int, what string) { problems = append(problems, fmt.Errorf("%s:%d: %s", name, line, what)) }
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, maxUsersFile+1)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		user, hash, ok := strings.Cut(text, ":")
		if !ok || !isName(user) {
			bad(n, "is not name:hash; write it with htpasswd -B")
			continue
		}
		cost, err := bcrypt.Cost([]byte(hash))
		switch _, twice := hashes[user]; {
		case err != nil:
			bad(n, fmt.Sprintf("the hash of %s is not one of bcrypt; write it with htpasswd -B", quoted(user)))
		case cost > maxCost:
			bad(n, fmt.Sprintf("the hash of %s has cost %d, and takes too long; write one of %d or less: htpasswd -B -C 12",
				quoted(user), cost, maxCost))
		case twice:
			bad(n, quoted(user)+" is there twice; keep one of them")
		default:
			hashes[user] = hash
		}
	}
	if err := lines.Err(); err != nil {
		problems = append(problems, fmt.Errorf("%s: %w", name, err))
	}
	if len(problems) == 0 && len(hashes) == 0 {
		problems = append(problems,
			fmt.Errorf("%s: there are no users in it; add a person with htpasswd -B %s NAME", name, name))
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return hashes, nil
}

// still reports whether somebody who has signed in with a proof is in the file
// as before.
func (u *Users) still(name, proof string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.refreshLocked()
	hash, ok := u.hashes[name]
	return ok && hash == proof
}

// check looks whether a password is that of a person, and returns the proof for a
// session. It takes as long for people who do not exist. The error is a *problem.
func (u *Users) check(ctx context.Context, from, name, password string) (proof string, err error) {
	if !isName(name) {
		name = "" // no user's, and it may be long
	}
	u.mu.Lock()
	u.refreshLocked()
	hash, known := u.hashes[name]
	broken := u.broken
	mac := u.mac(name, password)
	once, ok := u.proven[mac]
	now := u.now()
	if broken == nil && known && ok && once.hash == hash && now.Before(once.until) {
		u.mu.Unlock()
		return hash, nil
	}
	tried := u.triedLocked(from, name, now)
	wait, pause := tried[0].wait(now), time.Duration(0)
	if wait == 0 { // counted before it is looked at: many at once are many guesses
		pause = max(tried[1].pause(), tried[2].pause())
		for _, g := range tried {
			g.n++
			g.last = now
		}
	}
	u.mu.Unlock()
	switch {
	case broken != nil:
		return "", &problem{
			Status: http.StatusServiceUnavailable, Title: "Sign-in is disabled", Detail: "the file of users cannot be read",
			Next: "look at the log of the daemon, and write the file anew with htpasswd -B",
		}
	case wait > 0:
		return "", tooManyGuesses(wait)
	}
	if pause > 0 {
		slow := time.NewTimer(pause)
		defer slow.Stop()
		select {
		case <-slow.C:
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	u.hashing <- struct{}{}
	if !known {
		hash = u.dummy()
	}
	wrong := bcrypt.CompareHashAndPassword([]byte(hash), []byte(password))
	<-u.hashing
	if wrong != nil || !known {
		u.log.Warn("sign-in to the console failed", "name", clip(name), "from", from)
		return "", &problem{
			Status: http.StatusUnauthorized, Title: "Not signed in", Detail: "the name or the password is wrong",
			Next: "try again, or ask who keeps the file of users",
		}
	}
	u.rememberPassword(mac, hash, tried)
	return hash, nil
}

// rememberPassword remembers that a password fits a hash, and forgives what was tried before.
func (u *Users) rememberPassword(mac, hash string, tried [3]*guesses) {
	u.mu.Lock()
	defer u.mu.Unlock()
	tried[0].n = 0
	for _, g := range tried[1:] {
		g.n = max(0, g.n-1)
	}
	if len(u.proven) >= maxProven {
		clear(u.proven)
	}
	u.proven[mac] = provenBy{hash: hash, until: u.now().Add(provenFor)}
}

// mac is what is kept of a password: nothing that is worth anything elsewhere.
func (u *Users) mac(name, password string) string {
	h := hmac.New(sha256.New, u.key)
	_, _ = fmt.Fprintf(h, "%d:%s:%s", len(name), name, password)
	return string(h.Sum(nil))
}

// dummy is a hash that no password has to fit, as dear as the others.
func (u *Users) dummy() string {
	cost := bcrypt.DefaultCost
	u.mu.Lock()
	for _, hash := range u.hashes {
		cost, _ = bcrypt.Cost([]byte(hash))
		break
	}
	u.mu.Unlock()
	return fmt.Sprintf("$2a$%02d$%s", cost, strings.Repeat("x", 22)+strings.Repeat("y", 31))
}

// guesses are the passwords that were tried for one name from one address, or for one
// name, or from one address, since one that was right.
type guesses struct {
	n     int
	last  time.Time
	names map[string]bool // from one address: those that are counted apart
}

const (
	freeGuesses = 5      // for a name from an address
	slowGuesses = 20     // for a name, or from an address
	ownNames    = 50     // names of an address that are counted apart
	maxGuesses  = 10_000 // names and addresses that are counted
	forgetAfter = 15 * time.Minute
	longestWait = 5 * time.Minute
	longestSlow = 2 * time.Second
)

// triedLocked returns what was tried for a name from an address, which is refused when
// it is too much, and what was for the name and from the address, which is only slow
// then: the guesses of one must not keep another out.
func (u *Users) triedLocked(from, name string, now time.Time) [3]*guesses {
	address := u.guessesLocked("from "+from, now)
	if !address.names[name] {
		if len(address.names) < ownNames {
			if address.names == nil {
				address.names = map[string]bool{}
			}
			address.names[name] = true
		} else { // those beyond are one name, whether a user is called so or not
			name = "\x00"
		}
	}
	return [3]*guesses{u.guessesLocked("both "+from+" "+name, now), u.guessesLocked("name "+name, now), address}
}

func (u *Users) guessesLocked(key string, now time.Time) *guesses {
	g := u.guesses[key]
	switch {
	case g == nil:
		if len(u.guesses) >= maxGuesses {
			u.forgetLocked()
		}
		g = &guesses{last: now}
		u.guesses[key] = g
	case now.Sub(g.last) > forgetAfter:
		*g = guesses{last: now}
	}
	return g
}

// forgetLocked makes room: the half that was tried longest ago is forgotten.
func (u *Users) forgetLocked() {
	keys := slices.SortedFunc(maps.Keys(u.guesses), func(a, b string) int {
		return u.guesses[a].last.Compare(u.guesses[b].last)
	})
	for _, key := range keys[:len(keys)/2] {
		delete(u.guesses, key)
	}
}

// wait is how long the next guess has to wait: from the sixth on a second, then twice
// as long each time.
func (g *guesses) wait(now time.Time) time.Duration {
	if g.n < freeGuesses {
		return 0
	}
	return max(0, g.last.Add(min(time.Second<<min(g.n-freeGuesses, 16), longestWait)).Sub(now))
}

// pause is how much later the next guess is looked at.
func (g *guesses) pause() time.Duration {
	if g.n < slowGuesses {
		return 0
	}
	return min(100*time.Millisecond<<min(g.n-slowGuesses, 16), longestSlow)
}

func tooManyGuesses(wait time.Duration) *problem {
	return &problem{
		Status: http.StatusTooManyRequests, Title: "Too many wrong passwords", Detail: "too many passwords were wrong",
		Next: "wait for " + human(wait.Round(time.Second)+time.Second) + ", then try again",
	}
}
