package model

// action is what a step was, for the trace.
type action struct {
	kind  kind
	who   uint8
	about uint8 // an op, a request, or a set
	env   bool  // it may never come: a fault, a timer, a wish
	yes   bool
}

type kind uint8

const (
	actArrives kind = iota
	actReadsEpoch
	actReads
	actRemembers
	actWrites
	actLost
	actLostUndone
	actLate
	actLooksOwn
	actReadsG
	actLists
	actFollows
	actLooksHolders
	actWatchesL
	actMourns
	actWaits
	actWoken
	actToldGranted
	actToldGone
	actLooksAtHold
	actLetsGo
	actHeirKnown
	actShares
	actReadsNode
	actTimer
	actDelayTimer
	actHears
	actExpires
	actReconnects
	actLeaseEnds
	actDelayEnds
	actDeleted
	actLapses
	actOperatorReads
	actOperatorLists
	actOperatorBreaks
	actRemoverReads
	actRemoves
	actCut
	actSeeks
	actLooksMate
	actStays
	actRefused
	actNotThere
	actPasses
)

//nolint:cyclop,funlen // one case for each kind of action
func (a action) String() string {
	who := requestName(int(a.who))
	switch a.kind {
	case actArrives:
		return who + " comes, and knows the epoch"
	case actReadsEpoch:
		return who + " reads the epoch"
	case actReads:
		return who + " reads G, v and the list"
	case actRemembers:
		return who + " comes, and remembers v"
	case actWrites:
		if a.yes {
			return who + ": " + opNames[a.about]
		}
		return who + ": " + opNames[a.about] + " is refused"
	case actLost:
		return who + ": " + opNames[a.about] + " is carried out, and the reply is lost"
	case actLostUndone:
		return who + ": " + opNames[a.about] + " is lost before it is carried out"
	case actLate:
		if a.yes {
			return who + ": " + opNames[a.about] + " is carried out late, under another session"
		}
		return who + ": " + opNames[a.about] + " comes late, and is refused"
	case actLooksOwn:
		return who + " looks at its own node, and watches it"
	case actReadsG:
		return who + " reads G and v"
	case actLists:
		return who + " lists"
	case actFollows:
		return who + " looks at the one in front, and watches it"
	case actLooksHolders:
		return who + " is first, looks at the holders, and watches them"
	case actWatchesL:
		return who + " watches L"
	case actMourns:
		return who + " is first, and finds a lock delay to wait out"
	case actWaits:
		return who + " waits"
	case actWoken:
		return who + " is woken, and decides again"
	case actToldGranted:
		return who + " learns that it was granted"
	case actToldGone:
		return who + " learns that its node is gone"
	case actLooksAtHold:
		return who + " holds, looks at its own node, and watches it"
	case actLetsGo:
		return who + " lets go"
	case actHeirKnown:
		return who + " lets go, and knows its heir from before its grant"
	case actShares:
		return who + " wants to share"
	case actReadsNode:
		return who + " reads its own node"
	case actTimer:
		return who + "'s timer fires"
	case actDelayTimer:
		return who + " has waited a lock delay out"
	case actHears:
		return "a server of client " + requestName(int(a.who)) + "'s shows one transaction more"
	case actExpires:
		return "the session of client " + requestName(int(a.who)) + " expires"
	case actReconnects:
		return who + " reconnects, syncs, and looks for its guid"
	case actLeaseEnds:
		return who + "'s lease ends"
	case actDelayEnds:
		return who + "'s lock delay is over"
	case actDeleted:
		return "an administrator deletes the node of " + who
	case actLapses:
		return who + "'s deadline passes; its session lives on"
	case actOperatorReads:
		return "the operator reads G and v"
	case actOperatorLists:
		return "the operator lists"
	case actOperatorBreaks:
		if a.yes {
			return "the operator breaks the lock of " + who
		}
		return "the operator's break is refused"
	case actRemoverReads:
		return "the removal reads L and the list"
	case actRemoves:
		if a.yes {
			return "L is removed, the epoch raised"
		}
		return "the removal is refused"
	case actCut:
		return who + "'s connection breaks while it waits"
	case actSeeks:
		return who + " comes with a reference, syncs, and knows the epoch"
	case actLooksMate:
		return who + " looks at the node of a companion"
	case actStays:
		return who + " watches the one that it adopts, which waits"
	case actRefused:
		return who + " does not join: the hold is preempted"
	case actPasses:
		return who + " releases, and has the next one of its line behind it"
	case actNotThere:
		return who + " gets a NotThereError"
	}
	return "?"
}
