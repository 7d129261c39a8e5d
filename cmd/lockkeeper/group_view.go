package main

import (
	"slices"
	"time"

	"github.com/lockkeeper/lockkeeper/recipes"
)

// groupView is a lock group in JSON and YAML. The names of fields are a promise
// to scripts.
type groupView struct {
	Name          string          `json:"name"`
	Strategy      string          `json:"strategy"`
	Holders       int             `json:"holders"`
	Controller    *string         `json:"controller"` // null while nobody is there
	Members       []memberView    `json:"members"`    // in the order in which they came
	Locks         []groupLockView `json:"locks"`      // in lexicographic order
	Held          int             `json:"held"`       // locks that have a holder
	Generation    int64           `json:"generation"` // how many plans there were
	Moved         int             `json:"moved"`      // locks that changed hands by the last plan
	MovedTotal    int64           `json:"moved_total"`
	StrategyError string          `json:"strategy_error"` // why there was no plan when the strategy was asked last
}

type memberView struct {
	Name       string    `json:"name"`
	ID         string    `json:"id"`
	Host       string    `json:"host"`
	PID        int       `json:"pid"`
	Since      time.Time `json:"since"`
	Controller bool      `json:"controller"`
	State      string    `json:"state"` // joined, leaving, or waiting for another one of its name
	Locks      int       `json:"locks"` // how many it holds
}

type groupLockView struct {
	Lock    string            `json:"lock"`
	State   string            `json:"state"` // LOCKED, RELEASED or DROPPED
	Holders []groupHolderView `json:"holders"`
	Planned []string          `json:"planned"` // who shall hold it
}

type groupHolderView struct {
	Name      string        `json:"name"`
	ID        string        `json:"id"`
	Token     recipes.Token `json:"token"`
	Releasing bool          `json:"releasing"` // it was asked to, and has not yet
}

func newGroupView(state recipes.GroupState) groupView {
	v := groupView{
		Name: state.Spec.Name, Strategy: state.Spec.Strategy, Holders: state.Spec.Holders,
		Members: make([]memberView, 0, len(state.Members)), Locks: make([]groupLockView, 0, len(state.Locks)),
		Generation: state.Generation, Moved: state.Moved, MovedTotal: state.MovedTotal, StrategyError: state.StrategyError,
	}
	if name := state.Controller(); name != "" {
		v.Controller = &name
	}
	counts := map[string]int{} // by ID
	for _, l := range state.Locks {
		lock := groupLockView{
			Lock: l.Lock, State: string(l.State),
			Holders: make([]groupHolderView, 0, len(l.Holders)), Planned: slices.Concat([]string{}, l.Planned),
		}
		if len(l.Holders) > 0 {
			v.Held++
		}
		for _, h := range l.Holders {
			counts[h.ID]++
			lock.Holders = append(lock.Holders, groupHolderView{Name: h.Name, ID: h.ID, Token: h.Token, Releasing: h.Releasing})
		}
		v.Locks = append(v.Locks, lock)
	}
	slices.SortFunc(v.Locks, byLock)
	for _, m := range state.Members {
		member := memberView{
			Name: m.Name, ID: m.ID, Host: m.Host, PID: m.PID, Since: m.Since.UTC(), Controller: m.Controller, State: "joined", Locks: counts[m.ID],
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
