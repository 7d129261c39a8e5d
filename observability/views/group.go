package views

import (
	"slices"
	"strings"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes/group"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

// Group is a lock group in JSON and YAML. The names of fields are a promise
// to scripts.
type Group struct {
	Name          string        `json:"name"`
	Strategy      string        `json:"strategy"`
	Holders       int           `json:"holders"`
	Controller    *string       `json:"controller"` // null while there is no controller
	Members       []GroupMember `json:"members"`    // in the order in which they came
	Locks         []GroupLock   `json:"locks"`      // in lexicographic order
	Held          int           `json:"held"`       // locks that have a holder
	Generation    int64         `json:"generation"` // how many plans there were
	Moved         int           `json:"moved"`      // locks that changed hands by the last plan
	MovedTotal    int64         `json:"moved_total"`
	StrategyError string        `json:"strategy_error"` // why there was no plan when the strategy was asked last
}

// GroupMember is a participant of a group.
type GroupMember struct {
	Name       string    `json:"name"`
	ID         string    `json:"id"`
	Host       string    `json:"host"`
	PID        int       `json:"pid"`
	Since      time.Time `json:"since"`
	Controller bool      `json:"controller"`
	State      string    `json:"state"` // joined, leaving, or waiting for another one of its name
	Locks      int       `json:"locks"` // how many it holds
}

// GroupLock is a lock of a group.
type GroupLock struct {
	Lock    string        `json:"lock"`
	State   string        `json:"state"` // LOCKED, RELEASED or DROPPED
	Holders []GroupHolder `json:"holders"`
	Planned []string      `json:"planned"` // who shall hold it
}

// GroupHolder is a participant that holds a lock of a group.
type GroupHolder struct {
	Name      string     `json:"name"`
	ID        string     `json:"id"`
	Token     lock.Token `json:"token"`
	Releasing bool       `json:"releasing"` // it was asked to, and has not yet
}

// NewGroup is what one look at a group has shown.
func NewGroup(state group.State) Group {
	v := Group{
		Name: state.Spec.Name, Strategy: state.Spec.Strategy, Holders: state.Spec.Holders,
		Members: make([]GroupMember, 0, len(state.Members)), Locks: make([]GroupLock, 0, len(state.Locks)),
		Generation: state.Generation, Moved: state.Moved, MovedTotal: state.MovedTotal, StrategyError: state.StrategyError,
	}
	if name := state.Controller(); name != "" {
		v.Controller = &name
	}
	counts := map[string]int{} // by ID
	for _, l := range state.Locks {
		lock := GroupLock{
			Lock: l.Lock, State: string(l.State),
			Holders: make([]GroupHolder, 0, len(l.Holders)), Planned: append([]string{}, l.Planned...),
		}
		if len(l.Holders) > 0 {
			v.Held++
		}
		for _, h := range l.Holders {
			counts[h.ID]++
			lock.Holders = append(lock.Holders, GroupHolder{Name: h.Name, ID: h.ID, Token: h.Token, Releasing: h.Releasing})
		}
		v.Locks = append(v.Locks, lock)
	}
	slices.SortFunc(v.Locks, func(a, b GroupLock) int { return strings.Compare(a.Lock, b.Lock) })
	for _, m := range state.Members {
		member := GroupMember{
			Name: m.Name, ID: m.ID, Host: m.Host, PID: m.PID, Since: m.Since.UTC(), Controller: m.Controller, State: "joined",
			Locks: counts[m.ID],
		}
		switch {
		case m.Leaving:
			member.State = "leaving"
		case m.Waiting:
			member.State = "waiting"
		}
		v.Members = append(v.Members, member)
	}
	return v
}
