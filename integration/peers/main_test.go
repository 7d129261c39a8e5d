package peers

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/peers/contestant"
)

// role makes this test's program a contestant: "played" is one in Go, "scripted" one that measures nothing.
const role = "LOCKKEEPER_PEERS_ROLE"

func TestMain(m *testing.M) {
	var err error
	switch os.Getenv(role) {
	case "":
		os.Exit(m.Run())
	case "played":
		a := arguments()
		err = contestant.Serve(context.Background(), contestant.Options{
			Kind: a["--kind"], Servers: contestant.ParseServers(a["--server"]), Session: 10 * time.Second,
		}, os.Stdin, os.Stdout)
	case "scripted":
		err = script(arguments()["--kind"])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func arguments() map[string]string {
	all := map[string]string{}
	for i := 1; i+1 < len(os.Args); i += 2 {
		all[os.Args[i]] = os.Args[i+1]
	}
	return all
}

// script answers each turn at once: ours has 300 cycles a second, and 30 more each time; raw 400 and 40; zklock does not
// answer its third turn, redis lets others in, and etcd ends.
func script(kind string) error {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for n := 0; lines.Scan(); n++ {
		var turn contestant.Turn
		if err := json.Unmarshal(lines.Bytes(), &turn); err != nil {
			return err
		}
		r := contestant.Result{Seconds: turn.Seconds, P50Micros: 10, P99Micros: 20, CPUMillis: 1}
		switch kind {
		case "zklock":
			if n == 2 {
				select {} // until it is killed
			}
			r.Cycles = 100
		case "etcd":
			return fmt.Errorf("this one does not like %s", turn.Do)
		case "redis":
			r.Cycles, r.Errors, r.FirstError = 50, 2, "timeout"
			if turn.Check != "" {
				r.Violations = 7
			}
		case "raw":
			r.Cycles = 400 + 40*n
		default:
			r.Cycles = 300 + 30*n
		}
		line, err := json.Marshal(r)
		if err != nil {
			return err
		}
		fmt.Println(string(line))
	}
	return lines.Err()
}
