package steps

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A frame is one that a user sends in a scene: the n-th of that text.
type frame struct {
	user string
	text string
	n    int
}

func (f frame) String() string { return fmt.Sprintf("%s %s, number %d", f.user, f.text, f.n) }

// writes tells whether the frame may change anything.
func (f frame) writes() bool {
	op, _, _ := strings.Cut(f.text, " ")
	return slices.Contains([]zktest.OpType{zktest.Multi, zktest.Create, zktest.SetData, zktest.Delete}, zktest.OpType(op))
}

// slug is the frame as a part of a test's name.
func (f frame) slug() string {
	text := strings.NewReplacer(" ", "-", "/", ".", ",", "", "(", "", ")", "").Replace(f.text)
	if f.n > 1 {
		text += fmt.Sprintf("-%d", f.n)
	}
	return f.user + "-" + text
}

// A script is what users have sent, in order. Pings are left out: their time is
// not a step of anything.
type script struct {
	mu    sync.Mutex
	list  []frame
	times map[frame]int
	names map[string]string // whose node: by its path without the number
	count map[string]int
}

func newScript() *script {
	return &script{times: make(map[frame]int), names: make(map[string]string), count: make(map[string]int)}
}

func (s *script) add(q zktest.Request) {
	f, ok := s.frame(q)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times[f]++
	f.n = s.times[f]
	s.list = append(s.list, f)
}

func (s *script) frames() []frame {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.list)
}

// frame tells who sends what; without its number.
func (s *script) frame(q zktest.Request) (frame, bool) {
	if q.Op == zktest.Ping || len(q.From) == 0 {
		return frame{}, false
	}
	user := q.From[len(q.From)-1]
	s.mu.Lock()
	defer s.mu.Unlock()
	return frame{user: user, text: s.text(user, q)}, true
}

func (s *script) text(user string, q zktest.Request) string {
	switch q.Op {
	case zktest.Connect:
		if q.Session != 0 {
			return "connect again"
		}
		return "connect"
	case zktest.Multi, zktest.MultiRead:
		parts := []string{string(q.Op)}
		for _, op := range q.Ops {
			parts = append(parts, s.text(user, op))
		}
		return strings.Join(parts, " ")
	case zktest.Create:
		s.learn(user, q)
	default:
	}
	text := string(q.Op)
	if q.Path != "" {
		text += " " + s.short(q.Path)
	}
	if q.Watch {
		text += " watch"
	}
	return text
}

// learn takes note of whose node it will be.
func (s *script) learn(user string, q zktest.Request) {
	if !q.Sequential && !q.Ephemeral || s.names[q.Path] != "" {
		return
	}
	s.count[user]++
	name := user
	if n := s.count[user]; n > 1 {
		name += fmt.Sprint(n)
	}
	s.names[q.Path] = name
}

func (s *script) plain(path string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.short(path)
}

// short is a path with names in place of guids.
func (s *script) short(path string) string {
	owner, known := s.names[path]
	if !known && len(path) > 10 {
		owner, known = s.names[path[:len(path)-10]]
	}
	if known {
		return owner
	}
	if rest, ok := strings.CutPrefix(path, root+"/locks/"); ok && strings.Contains(rest, "/") {
		return rest[strings.IndexByte(rest, '/')+1:]
	}
	if rest, ok := strings.CutPrefix(path, "/classic/"); ok {
		return rest
	}
	if rest, ok := strings.CutPrefix(path, root); ok {
		return "root" + rest
	}
	return path
}
