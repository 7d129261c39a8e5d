// Package history is what the processes of the robustness suite write down, and
// how it is read again.
//
// The one idea: each process appends to a file of its own, one JSON line with
// one write(2) for each event, so that a kill -9 loses at most what had not
// happened. All lines are stamped by CLOCK_BOOTTIME, which is the same for all
// processes of a machine and never steps: stamps of different files can be
// compared.
package history
