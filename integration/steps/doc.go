// Package steps breaks something at each step of each recipe, and looks whether
// all users can live with it.
//
// The one idea: no person chooses the steps. A scene is a few users who ask, hold and release
// by themselves; it is played once, every frame that a user sends is written down (writes and
// reads, connects and syncs), and then it is played again for each of these frames and each
// fault: the connection dies before the frame arrives or before its answer does, the session
// ends, the caller leaves, the client is closed, the server starts anew, or says nothing for a
// while. All of it is in virtual time, on the embedded server, so that thousands of cases take
// seconds and go the same way each time.
//
//	go test ./integration/steps -run 'TestSteps/hand-over/017-A'                  # one frame, all faults
//	go test ./integration/steps -run 'TestSteps/.*/.*/drop-reply' -v              # one fault, everywhere
//	go test ./integration/steps -run TestTwoFaults -args -long -seed 7 -pairs 500 # two faults at a time
//
// After each case:
//
//   - What a call has answered is so at the server: who was granted is there, what
//     was released is gone, and of a request that has failed nothing is left.
//   - At no moment, by what users believe and by what the server says, did two hold
//     that exclude each other; tokens grew.
//   - No other user noticed: a wake-up that is lost shows as a wait of a minute.
//   - Each hold has ended once, released or lost, and what users were told agrees.
//   - Nothing is left: no node, no watch, no goroutine, nothing in the clients'
//     tables; and each lock can be taken by every user, at once.
package steps
