package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// startServer starts the embedded server. Without --listen it takes a free port
// when the usual one is taken, and says so.
func startServer(d *devFlags) (server *zktest.Server, taken bool, err error) {
	var options []zktest.Option
	if d.dataDir != "" {
		options = append(options, zktest.DataDir(d.dataDir))
	}
	address := cmp.Or(d.listen, defaultListen)
	server, err = zktest.Start(append(options, zktest.Addr(address))...)
	taken = errors.Is(err, syscall.EADDRINUSE)
	unusable := &zktest.DataDirError{}
	switch {
	case taken && d.listen == "":
		server, err = zktest.Start(append(options, zktest.Addr("127.0.0.1:0"))...)
	case taken:
		err = fmt.Errorf("--listen: %s is taken; name another address, or leave the flag out for a free port", address)
	case errors.As(err, &unusable):
		err = fmt.Errorf("--data-dir: %s: %w", unusable.Dir, unusable.Err)
	case err != nil && d.listen != "":
		if failed, ok := errors.AsType[*net.OpError](err); ok {
			err = failed.Err // the rest says what is known
		}
		err = fmt.Errorf(
			"--listen: %s cannot be used: %w; name an address of this machine with a port above 1023, or leave the flag out",
			address, err)
	}
	return server, taken, err
}
