// Package secrets plants a secret through every way by which one can come in,
// lets the program do all that it does, and fail in all ways in which it fails,
// and looks for the secrets in whatever comes out: what is written, logged,
// measured, exported and served, each node of ZooKeeper, the files that are left, and
// errors and values as fmt, slog, JSON and YAML write them.
package secrets
