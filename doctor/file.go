package doctor

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/internal/words"
)

// checkConfig is about the configuration file.
func checkConfig(f *findings, _ *facts, o Options) {
	if o.File == "" {
		return
	}
	if o.ConfigError != nil {
		f.broken(o.File, o.ConfigError, "lockkeeper config validate says all that is wrong with it")
		return
	}
	for _, w := range o.Config.Warnings {
		f.warn(place(w), said(w), w.Instead)
	}
	if len(o.Config.Warnings) == 0 {
		f.ok(o.File,
			fmt.Sprintf("is valid: %s, %s", words.Count(len(o.Config.Jobs), "job"), words.Count(len(o.Config.Groups), "group")))
	}
}

// checkOverrides is about the overrides file, if the configuration has one.
func checkOverrides(f *findings, _ *facts, o Options) {
	if o.Config == nil || o.Config.Emergency.File == "" {
		return
	}
	name := o.Config.Emergency.File
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		f.ok(name, "is not there, as it should be while there is no emergency")
		return
	}
	overrides, err := config.LoadOverrides(name, config.OverridesOptions{Config: o.Config})
	if err != nil {
		f.broken(name, err, "correct the file: daemons go on with what it said before")
		return
	}
	for _, w := range overrides.Warnings {
		f.warn(place(w), said(w), w.Instead)
	}
	f.ok(name, fmt.Sprintf("is valid: %s", words.Count(len(overrides.All), "override")))
}

// broken names the first mistakes of a file.
func (f *findings) broken(name string, err error, more string) {
	mistakes, ok := errors.AsType[*config.Errors](err)
	if !ok {
		f.problem(name, err.Error(), more)
		return
	}
	const few = 5
	for i, p := range mistakes.Problems {
		if i == few {
			f.problem(name, fmt.Sprintf("%d more problems", len(mistakes.Problems)-few), more)
			return
		}
		f.problem(place(p), said(p), cmp.Or(p.Instead, more))
	}
}

func place(p config.Problem) string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

func said(p config.Problem) string {
	if p.Path == "" {
		return p.What
	}
	return p.Path + ": " + p.What
}
