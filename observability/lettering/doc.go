// Package lettering makes what strangers have written harmless, and fits it into
// the columns of a terminal.
//
// The idea: owners, scopes and messages are whatever somebody has put into
// ZooKeeper. What is shown of them goes through here first: it moves no cursor,
// reverses no text and hides nothing, and its width is known before it is written.
//
//	name := lettering.Cut(lettering.Line(owner), 12, "…")
//	pad := 12 - lettering.Columns(name)
package lettering
