// Command check runs the model of the lock protocol: every guard taken away
// once, then every configuration to the end. It exits with 1 if a promise is broken.
//
//	check                              everything
//	check -docs FILE                   everything, and the tables of recipes/lock/model/results.md anew
//	check -config NAME                 one configuration
//	check -config NAME -without GUARD  and the way to what the guard prevents
package main
