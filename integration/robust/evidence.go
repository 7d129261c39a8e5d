package robust

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/integration/robust/verdict"
	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

// keepEvidence writes down what shows the violations: for each a text and, if the model
// has found it, porcupine's picture; and the whole history of the scope. And what
// processes have said on their standard error, and servers in their logs.
func keepEvidence(
	dir string, violations []verdict.Violation, events []history.Event, from string, servers *zkserver.Ensemble,
) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	var errs []error
	for i, v := range violations {
		name := filepath.Join(dir, fmt.Sprintf("%02d-%s", i+1, v.Check))
		errs = append(errs, os.WriteFile(name+".txt", []byte(v.String()), 0o600))
		if v.Check == verdict.CheckModel {
			errs = append(errs, v.Picture(name+".html"))
		}
		if v.Scope == "" {
			continue
		}
		// All of the processes that are in it, and all of the scope.
		var clients []string
		for _, h := range v.Holds {
			clients = append(clients, h.Client)
		}
		var lines []byte
		for _, e := range events {
			if e.Scope == v.Scope || e.Scope == "" && slices.Contains(clients, e.Client) {
				line, err := json.Marshal(e)
				errs = append(errs, err)
				lines = append(append(lines, line...), '\n')
			}
		}
		errs = append(errs, os.WriteFile(name+".jsonl", lines, 0o600))
	}
	for _, s := range servers.Servers() {
		text, err := s.Log()
		errs = append(errs, err, os.WriteFile(filepath.Join(dir, fmt.Sprintf("server-%d.log", s.ID())), []byte(text), 0o600))
		errs = append(errs, keepTransactions(filepath.Join(dir, fmt.Sprintf("server-%d", s.ID())), s.Dir()))
	}
	words, err := filepath.Glob(filepath.Join(from, "*.stderr"))
	errs = append(errs, err)
	for _, path := range words {
		if text, err := os.ReadFile(path); err == nil && len(text) > 0 {
			errs = append(errs, os.WriteFile(filepath.Join(dir, filepath.Base(path)), text, 0o600))
		}
	}
	return errors.Join(errs...)
}

// keepTransactions copies what a server has executed, without the room that it has reserved at the ends of its files.
// ZooKeeper's zkTxnLogToolkit.sh shows it.
func keepTransactions(to, server string) error {
	logs, err := filepath.Glob(filepath.Join(server, "*", "version-2", "log.*"))
	errs := []error{err, os.MkdirAll(to, 0o750)}
	for _, path := range logs {
		log, err := os.ReadFile(path)
		errs = append(errs, err, os.WriteFile(filepath.Join(to, filepath.Base(path)), bytes.TrimRight(log, "\x00"), 0o600))
	}
	return errors.Join(errs...)
}
