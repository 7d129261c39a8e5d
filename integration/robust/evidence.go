package robust

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/lockkeeper/lockkeeper/integration/robust/history"
	"github.com/lockkeeper/lockkeeper/integration/robust/verdict"
)

// keepEvidence writes down what shows the violations: for each a text and, if the model
// has found it, porcupine's picture; and the whole history of the scope.
func keepEvidence(dir string, violations []verdict.Violation, events []history.Event) error {
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
	return errors.Join(errs...)
}
