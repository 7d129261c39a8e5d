package doctor

import (
	"fmt"
	"os"
	"slices"
)

// checkSecrets is about who may read the files with passwords and keys.
func checkSecrets(f *findings, _ *facts, o Options) {
	names := o.Secrets
	if o.Config != nil {
		names = slices.Concat(names, o.Config.Secrets)
	}
	told := map[string]bool{}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil || told[name] { // the first was said where it was to be read
			continue
		}
		told[name] = true
		if mode := info.Mode().Perm(); mode&0o027 != 0 {
			f.warn(name, fmt.Sprintf("has a password or a key in it, and others may read or change it (%s)", info.Mode()),
				"chmod 600 "+name)
			continue
		}
		f.ok(name, "is for its owner alone, or his group")
	}
}
