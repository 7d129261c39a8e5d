// Package overrides tests what operators' overrides, the audit trail and
// approvals do to requests and holders, from the guard to the server: with the
// client in between, and in virtual time (see package virtualtime).
//
// What is in force is what a test says; where overrides come from, and who may
// post them, is tested elsewhere.
package overrides
