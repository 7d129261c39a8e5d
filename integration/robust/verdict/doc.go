// Package verdict judges a history of the robustness suite: were the promises
// of the lock kept?
//
// The one idea: what counts is what clients learned. A hold begins when its
// Acquire has returned (Granted) and ends when its holder learns that it is
// lost, or is about to release it (Ended): what happens at the servers between
// those is the product's business, and shows only if it lets two clients believe
// what cannot be.
//
// # The model
//
// The model, which porcupine checks for each scope, is a lock with fencing
// tokens. Its state is who holds it, in which mode, and the greatest token of a
// grant. There are three acts, each of which happens at one instant:
//
//   - a grant, between the call of Acquire and its return. It is impossible while
//     somebody holds whose mode conflicts, except those whom it evicts (the
//     notice TakenOver, or the victim's loss, which names the taker): they hold no
//     more. Its token is greater than that of every grant before; of two shared
//     grants that follow each other it may be the same, for one hand-over grants
//     several readers.
//   - a downgrade, when it is called: from then on others may share.
//   - an end, at Ended; not of those who are evicted, whose end is the grant of
//     the one that evicts them. A process that is killed ends when the suite is
//     about to kill it: until then it believed, and no other may have been
//     granted; afterwards none does, whenever the server notices. For a hold
//     that goes on at the end of the history there is no end.
//
// Acquires that failed, or whose process died before they returned, are not in
// it: no client believed that it held. They can only keep others out, and
// whether they do so for ever is a matter of liveness. An act that is put at the
// earliest instant that it can have had allows all that a later one does; so the
// three are points, or short intervals, and porcupine has next to nothing to
// search: names of scopes last for a season only, so no history is long. If it
// runs out of patience all the same, the verdict is unknown, and not counted as
// a pass.
//
// # What is not promised
//
// A process that does not run cannot be told anything. If it was stopped
// (SIGSTOP), or starved by the machine for longer than a third of the margin
// (each process feels its own pulse), and its hold ended while it was or right
// after that, then this may have been over from the beginning of that pause (Loose):
// that is where its end may be put. The same is true if others have closed its
// session, for what was granted before, up to its own deadline. And a takeover
// does not wait until a holder that is cut off, has no grace or overruns it hears of
// it. For these only the token protects; their overlaps are measured apart and no
// violation.
//
// Nor is anything promised of servers that are slow: the suite asks each of them all the time, and what was due while one of
// them took longer than half of what the machine may take is no violation of evicted, right, turn and answer.
//
// # Checks beside the model
//
//   - told: a holder that lost the lock was told before another was granted, by
//     comparing stamps alone; so the promise does not hang on a search.
//   - margin: a holder that lost the lock to a silence of ZooKeeper was told the
//     margin before another was granted. The machine may have made it late by a third
//     of the margin: what is longer counts as starved. What is measured is a promise
//     about the end of the session, so another way to the grant must be ruled out: a
//     takeover, an excuse, or a request of the holder's own client that gives the lock
//     up. The suite sees the frames of all links, and says when a client sent none
//     (Silent).
//   - grace: no holder is evicted before the end of its grace period, except
//     while the servers' wall clocks disagree, by which it is counted.
//   - evicted: an evicted holder learns that within a session timeout, connected or
//     not; within a sixth of it if nothing was wrong.
//   - right: no holder is preempted, or evicted, by one that may not: that is not
//     more important, or polite, while the lease runs; and no holder is evicted that had a
//     grace and was not asked, unless something was wrong with one of the two networks.
//   - turn: while a request stands in the queue, connected, not more than a few less
//     important ones are granted; and no lock is free for long while somebody waits.
//   - answer: calls return in time, and fail only for a reason that the request
//     allows. What fails always would keep all other promises.
//   - token: no two grants of a scope have one token, shared ones apart.
//   - fence: the resource, a file for each scope, accepted no smaller token after
//     a greater one.
//   - stale: the resource refused no request that certainly held the lock.
//   - reader: no other request writes to the resource while one certainly holds the
//     lock.
//   - process, liveness: found by the suite; processes do not crash, everything
//     ends, nothing is left behind, neither by a process that goes on nor at the end,
//     every lock can be had.
//
// # What it cannot see
//
// Which of two waiters of one priority came first, for no waiter learns its
// position in time. Whether a grant was announced late, as long as no request
// waits for long. What happens to an uncontended lock. And nothing in which all
// processes were stopped.
package verdict
