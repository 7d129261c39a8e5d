package devserver

import (
	"io"
	"os"
	"os/exec"

	"github.com/lockkeeper/lockkeeper/integration/internal/process"
)

func launch(program string, args []string, output io.Writer) (*process.Process, error) {
	cmd := exec.Command(program, args...)
	// Neither the user's settings for Temporal nor a home directory, in which it would leave a file.
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
	cmd.Stdout, cmd.Stderr = output, output
	return process.Start(cmd)
}
