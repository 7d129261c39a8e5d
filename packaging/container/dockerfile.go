package container

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
)

// A Recipe is what a Dockerfile says of an image with one program.
type Recipe struct {
	// Build is the shell command of the first stage that compiles the program.
	Build string

	// Config is that of the image, with all arguments in place.
	Config v1.Config

	// Copies are the files of the image, from the first stage.
	Copies []Copy
}

// A Copy is one file of the first stage that the image has.
type Copy struct {
	From, To string
	Mode     int64
}

// Read reads a Dockerfile of two stages, of which the second begins from scratch. args are
// the build arguments that are given. What it does not know it refuses.
func Read(name string, args map[string]string) (*Recipe, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	parsed, err := parser.Parse(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	stages, _, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(stages) != 2 || stages[1].BaseName != "scratch" {
		return nil, fmt.Errorf("%s: it has not two stages, the last one from scratch", name)
	}
	r := &Recipe{Config: v1.Config{Labels: map[string]string{}}}
	for _, c := range stages[0].Commands {
		if run, ok := c.(*instructions.RunCommand); ok {
			r.Build = strings.Join(run.CmdLine, " ") // the last one
		}
	}
	s := scratch{
		Recipe: r, stage: stages[0].Name, given: args, lex: shell.NewLex(parsed.EscapeToken), args: map[string]string{},
	}
	for _, c := range stages[1].Commands {
		if err := s.add(c); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, c.Location()[0].Start.Line, err)
		}
	}
	return r, nil
}

// scratch is the last stage while it is read.
type scratch struct {
	*Recipe
	stage string // that files come from
	given map[string]string
	args  map[string]string // declared so far
	lex   *shell.Lex
}

func (s *scratch) add(c instructions.Command) error {
	if with, ok := c.(instructions.SupportsSingleWordExpansion); ok {
		expand := func(word string) (string, error) {
			expanded, _, err := s.lex.ProcessWord(word, shell.EnvsFromSlice(pairs(s.args)))
			return expanded, err
		}
		if err := with.Expand(expand); err != nil {
			return err
		}
	}
	switch c := c.(type) {
	case *instructions.ArgCommand:
		for _, a := range c.Args {
			value, given := s.given[a.Key]
			if !given && a.Value != nil {
				value = *a.Value
			}
			s.args[a.Key] = value
		}
	case *instructions.LabelCommand:
		for _, l := range c.Labels {
			s.Config.Labels[l.Key] = l.Value
		}
	case *instructions.EnvCommand:
		for _, e := range c.Env {
			s.Config.Env = append(s.Config.Env, e.Key+"="+e.Value)
		}
	case *instructions.UserCommand:
		s.Config.User = c.User
	case *instructions.WorkdirCommand:
		s.Config.WorkingDir = c.Path
	case *instructions.EntrypointCommand:
		s.Config.Entrypoint = c.CmdLine
		return noShell(c.PrependShell)
	case *instructions.CmdCommand:
		s.Config.Cmd = c.CmdLine
		return noShell(c.PrependShell)
	case *instructions.HealthCheckCommand:
		h := c.Health
		s.Config.Healthcheck = &v1.HealthConfig{
			Test: h.Test, Interval: h.Interval, Timeout: h.Timeout, StartPeriod: h.StartPeriod, Retries: h.Retries,
		}
		return noShell(len(h.Test) > 0 && h.Test[0] == "CMD-SHELL")
	case *instructions.CopyCommand:
		return s.copyFile(c)
	default:
		return fmt.Errorf("%s is not known here", c.Name())
	}
	return nil
}

func noShell(asked bool) error {
	if asked {
		return fmt.Errorf("the image has no shell; write the command as a list")
	}
	return nil
}

func (s *scratch) copyFile(c *instructions.CopyCommand) error {
	if c.From != s.stage || len(c.SourcePaths) != 1 || !path.IsAbs(c.DestPath) ||
		strings.HasSuffix(c.DestPath, "/") || c.Chown != "" {
		return fmt.Errorf("COPY is known of one file of stage %s alone, to a path", s.stage)
	}
	var mode int64
	if _, err := fmt.Sscanf(c.Chmod, "%o", &mode); err != nil {
		return fmt.Errorf("COPY without --chmod depends on the machine that builds")
	}
	s.Copies = append(s.Copies, Copy{From: c.SourcePaths[0], To: c.DestPath, Mode: mode})
	return nil
}

func pairs(m map[string]string) (all []string) {
	for k, v := range m {
		all = append(all, k+"="+v)
	}
	return all
}
