package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

func (p *program) version() *cobra.Command {
	return p.command(&cobra.Command{
		Use:   "version",
		Short: "Say which version this is",
	}, nil, func(c *cobra.Command, _ []string) error {
		if err := p.usage(c); err != nil {
			return err
		}
		v := buildVersion()
		return p.write(v, func(w io.Writer, _ bool) {
			_, _ = fmt.Fprintf(w, "lockkeeper %s\n", v.Version)
			_, _ = fmt.Fprintf(w, "%s %s\n", v.Go, v.Platform)
			if v.Commit != "" {
				changed := ""
				if v.Modified {
					changed = ", modified"
				}
				_, _ = fmt.Fprintf(w, "commit %s of %s%s\n", v.Commit, v.Time, changed)
			}
		})
	})
}

// release is the version of a release build, such as v0.1.0: the linker sets it. Without it, the version is
// that of the module, which go install knows.
var release string

// versionView is what is known of a build.
type versionView struct {
	Version  string `json:"version"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	Commit   string `json:"commit,omitempty"`
	Time     string `json:"time,omitempty"` // of the commit
	Modified bool   `json:"modified"`       // built from files that are not in the commit
}

func buildVersion() versionView {
	v := versionView{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		v.Version = cmp.Or(release, v.Version)
		return v
	}
	v.Version = cmp.Or(release, info.Main.Version, v.Version)
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
