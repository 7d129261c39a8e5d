// Command embedded is the embedded server in a process of its own, for
// benchmarks: it prints its address, and how long the start took in
// nanoseconds, and serves until its standard input ends.
package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lockkeeper/lockkeeper/zktest"
)

func main() {
	begin := time.Now()
	server, err := zktest.Start()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(server.Addr(), time.Since(begin).Nanoseconds())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = server.Close()
}
