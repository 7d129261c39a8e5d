// Command lockkeeper runs scheduled jobs and shell commands under locks in
// ZooKeeper, and shows who holds which lock and who waits for it.
//
//	lockkeeper exec --scope cluster/orders -- ./compact.sh
//	lockkeeper run -f lockkeeper.yaml
//	lockkeeper locks ls
//
// Each command is one file here and has no logic of its own: it reads its
// flags, calls one of the packages of this module and says what came of it.
// The exit codes are in exit.go.
package main

import (
	"fmt"
	"os"
	_ "time/tzdata" // schedules name time zones, and small images have none

	"github.com/lockkeeper/lockkeeper/internal/pid1"
)

func main() {
	// In a container no other process reaps the orphans of jobs.
	code, ended, err := pid1.Run(os.Args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "lockkeeper:", err)
	}
	if ended {
		os.Exit(code)
	}
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
