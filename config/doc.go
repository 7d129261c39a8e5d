// Package config reads the daemon's YAML file: text in, validated objects out.
//
// The one idea: all errors of the file are reported at once, each [Problem]
// with its line and column, what is wrong, and what to write instead:
//
//	lockkeeper.yaml:14:24 jobs[backup].locks[0].lease_timeout: "30 seconds" is not a duration; write "30s"
//	lockkeeper.yaml:21:9 jobs[hotfix].locks[0]: unknown field "leese"; did you mean "lease_timeout"?
//
// A file is accepted whole or not at all. Unknown and unsupported fields are
// errors: no setting of a valid file is without effect. What works, but perhaps
// not as meant, is a warning.
//
//	cfg, err := config.Load("lockkeeper.yaml", config.Options{
//		Funcs: map[string]jobs.Work{"reindex": jobs.Func(reindex)}, // run: go:reindex
//	})
//	if err != nil {
//		return err // *config.Errors: one line for each problem
//	}
//	client, err := lock.NewClient(cfg.Client)
//
// The file testdata/lockkeeper.yaml has all there is, with comments.
package config
