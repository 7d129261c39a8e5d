package zktest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest/internal/tree"
)

// DataDirError is returned by Start when the directory of DataDir cannot be
// used: another server uses it, it cannot be read, or what is in it is damaged.
// What was in it has not been changed.
type DataDirError struct {
	Dir string
	Err error
}

func (e *DataDirError) Error() string {
	return "zktest: data directory " + e.Dir + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *DataDirError) Unwrap() error { return e.Err }

// snapshots keep a server's state in a file.
type snapshots struct {
	path  string
	lock  *os.File // held while the server uses the directory
	timer *time.Timer
	dirty bool // something is to be saved, and the timer runs

	writing sync.Mutex // one at a time, without the server's lock
	last    bool       // has been written: nothing may follow
}

// A snapshot is the file.
type snapshot struct {
	Format   int               `json:"format"`
	Clean    bool              `json:"clean"` // written at the server's end
	Zxid     int64             `json:"zxid"`
	Next     int64             `json:"next_session"`
	Sessions []snapshotSession `json:"sessions"`
	Tree     tree.Snapshot     `json:"tree"`
}

type snapshotSession struct {
	ID       int64         `json:"id"`
	Password []byte        `json:"password"`
	Timeout  time.Duration `json:"timeout_ns"`
}

// snapshotFormat is raised when older files cannot be read any more.
const snapshotFormat = 1

// lostAtMost is more transactions than can be missing from a snapshot that was
// not the last: their numbers must not be given again, fencing tokens are made
// of them.
const lostAtMost = 1 << 20

// saveEvery is how often a state that changes is written.
const saveEvery = time.Second

// openDir reads the state from the directory, if there is one, and notes there
// that it is in use: found so at the start, it means a crash.
func (s *Server) openDir(dir string) error {
	if err := s.load(dir); err != nil {
		return err
	}
	return s.disk.write(s.snapshot(false))
}

func (s *Server) load(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	lock, err := lockDir(dir)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, "zktest.json")
	s.disk = &snapshots{path: path, lock: lock}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var from snapshot
	if err := json.Unmarshal(text, &from); err != nil {
		return fmt.Errorf("%s is damaged (%w); delete it to begin with an empty server", filepath.Base(path), err)
	}
	if from.Format != snapshotFormat {
		return fmt.Errorf("%s has format %d, this version reads %d; delete it to begin with an empty server",
			filepath.Base(path), from.Format, snapshotFormat)
	}
	t, err := tree.Load(from.Tree)
	if err != nil {
		return fmt.Errorf("%s is damaged (%w); delete it to begin with an empty server", filepath.Base(path), err)
	}
	t.TTLs = s.opts.ttl
	if !from.Clean {
		from.Zxid += lostAtMost
	}
	s.leader.tree, s.leader.zxid, s.zxid = t, from.Zxid, from.Zxid
	s.nextSession = max(s.nextSession, from.Next)
	for _, x := range from.Sessions {
		s.sessions[x.ID] = &session{id: x.ID, password: x.Password, timeout: x.Timeout}
		s.touch(s.sessions[x.ID])
	}
	return nil
}

// release gives the directory back.
func (d *snapshots) release() {
	if d != nil && d.lock != nil {
		_ = d.lock.Close()
	}
}

// dirty notes that there is something to save.
func (s *Server) dirty() {
	d := s.disk
	if d == nil || d.dirty {
		return
	}
	d.dirty = true
	if d.timer == nil {
		d.timer = time.AfterFunc(saveEvery, s.saveNow)
		return
	}
	d.timer.Reset(saveEvery)
}

// saveNow is called by the timer.
func (s *Server) saveNow() {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.disk.dirty = false
	now := s.snapshot(false)
	s.mu.Unlock()
	if s.disk.write(now) == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.dirty() // tries again; Close tells, if it still fails
	}
}

// saveLast writes the state of a server that has ended, and gives the
// directory back.
func (s *Server) saveLast() error {
	d := s.disk
	if d == nil {
		return nil
	}
	s.mu.Lock()
	if d.timer != nil {
		d.timer.Stop()
	}
	last := s.snapshot(true)
	s.mu.Unlock()
	err := d.write(last)
	d.release()
	return err
}

// snapshot is the state as it is now. What it shares with the tree does not
// change.
func (s *Server) snapshot(last bool) snapshot {
	now := snapshot{
		Format: snapshotFormat, Clean: last, Zxid: s.leader.zxid, Next: s.nextSession, Tree: s.leader.tree.Save(),
	}
	for _, x := range s.sessions {
		now.Sessions = append(now.Sessions, snapshotSession{ID: x.id, Password: x.password, Timeout: x.timeout})
	}
	return now
}

// write writes a state, whole or not at all.
func (d *snapshots) write(now snapshot) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	if d.last {
		return nil
	}
	d.last = now.Clean
	text, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return replaceFile(d.path, text)
}

func replaceFile(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".zktest-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
