package zkserver

import (
	"os"
	"os/exec"

	"github.com/lockkeeper/lockkeeper/integration/internal/process"
)

// launch runs the java program.
func launch(java string, args []string, dir string, output *os.File, env []string) (*process.Process, error) {
	cmd := exec.Command(java, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = output, output
	if len(env) > 0 {
		return process.Start(cmd, removeClockShare)
	}
	return process.Start(cmd)
}
