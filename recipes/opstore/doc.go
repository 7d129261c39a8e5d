// Package opstore is what operators leave in ZooKeeper, for all processes that use the root: an OverrideBoard with the
// overrides in force, an ApprovalBoard with the questions that wait for a decision, and an AuditLog.
//
// The idea: a process acts on what stands there only if it can have been
// written by operators only. So each look reads the access control list with
// the data, and what cannot be trusted is an error.
//
//	board := opstore.NewOverrideBoard(client)
//	_, err := board.Apply(ctx, override.Override{ID: "INC-1", Kind: override.Freeze, ...})
//	err = board.Watch(ctx, func(posted []opstore.PostedOverride, err error) { ... })
//
// Package emergency carries out what stands there; docs/overrides.md and docs/audit.md say what users see of it.
package opstore
