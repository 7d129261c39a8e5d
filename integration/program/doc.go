// Package program tests the program lockkeeper as its users have it: built,
// started as a process, against a real ZooKeeper. Each file in testdata is one
// story that a person can read; commands_test.go defines its commands. In those of
// testdata/lost sessions end; in the others no machine is too busy to keep one.
package program
