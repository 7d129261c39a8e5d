package zktest

import (
	"time"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// A stream is what waits to pass a gate in one direction. It is part of the gate
// and belongs to its lock.
type stream struct {
	queue    []frame
	first    int  // of the queue that has not passed
	draining bool // a goroutine lets frames pass; no other one may
	timer    *time.Timer
}

// A frame is one in the queue of a stream, or the end of the stream.
type frame struct {
	bytes []byte    // with the length if it is for the client
	at    time.Time // of its arrival
	end   func()    // called in its turn, instead of passing bytes

	op     zkwire.Op // of the request that it is, or answers; 0: an event, or unknown
	judged bool      // rule has been looked for
	rule   *Rule     // that acts on it
	acts   bool      // the rule has begun to act

	onReply *Rule // that acts on the reply to it
}

// slack is how many passed frames a queue keeps room for.
const slack = 64

func (s *stream) push(f frame) {
	switch {
	case s.first == len(s.queue):
		s.clear()
	case s.first > slack && s.first > len(s.queue)/2:
		n := copy(s.queue, s.queue[s.first:])
		clear(s.queue[n:])
		s.queue, s.first = s.queue[:n], 0
	}
	s.queue = append(s.queue, f)
}

// head returns the frame whose turn it is, or nil. It is valid until the next
// push.
func (s *stream) head() *frame {
	if s.first == len(s.queue) {
		return nil
	}
	return &s.queue[s.first]
}

func (s *stream) pop() frame {
	f := s.queue[s.first]
	s.queue[s.first] = frame{}
	s.first++
	return f
}

func (s *stream) clear() {
	clear(s.queue)
	s.queue, s.first = s.queue[:0], 0
}

// dropFrames forgets everything but an end.
func (s *stream) dropFrames() {
	var end *frame
	for i := s.first; i < len(s.queue); i++ {
		if s.queue[i].end != nil {
			end = &frame{end: s.queue[i].end}
		}
	}
	s.clear()
	if end != nil {
		s.push(*end)
	}
}

// wake calls f after d.
func (s *stream) wake(d time.Duration, f func()) {
	if s.timer == nil {
		s.timer = time.AfterFunc(d, f)
		return
	}
	s.timer.Reset(d)
}

func (s *stream) stop() {
	if s.timer != nil {
		s.timer.Stop()
	}
	s.clear()
}
