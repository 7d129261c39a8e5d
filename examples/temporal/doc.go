// Command temporal shows a workflow that needs one lock for several activities,
// and an emergency that cannot wait for it: a migration of the orders copies
// batch after batch under one lock; a repair that is more important asks for the
// lock; the copy is interrupted in the middle of a batch, what the migration has
// begun is undone while it still has the lock, and the repair goes in. Then the
// migration is made again, and completes.
//
//	make demo-temporal                        # with Temporal's web interface, until Ctrl-C
//	go run ./examples/temporal                # without, for as long as the story lasts
//	go run ./examples/temporal --zk localhost:2181 --temporal localhost:7233
//
// The one idea: the workflow says which lock it needs, around what, and how to
// clean up. That is all of workflow.go; nothing in it polls, signals or
// keeps time. The store that the activities write to is in store.go: it refuses
// a writer with an older token. Who does what in which order is in story.go.
package main
