package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/lockkeeper/lockkeeper/zktest"
)

// A devServer is the embedded ZooKeeper, and its data directory if it has one.
type devServer struct {
	*zktest.Server
	lock *os.File // nil without a directory
}

// startServer starts the embedded server. Without --listen it takes a free port
// when the usual one is taken, and says so.
func startServer(d *devFlags) (server *devServer, taken bool, err error) {
	server = &devServer{}
	var options []zktest.Option
	if d.dataDir != "" {
		if server.lock, err = lockDir(d.dataDir); err != nil {
			return nil, false, fmt.Errorf("--data-dir: %w", err)
		}
		options = append(options, zktest.DataDir(d.dataDir))
	}
	address := cmp.Or(d.listen, defaultListen)
	server.Server, err = zktest.Start(append(options, zktest.Addr(address))...)
	taken = errors.Is(err, syscall.EADDRINUSE)
	switch {
	case taken && d.listen == "":
		server.Server, err = zktest.Start(append(options, zktest.Addr("127.0.0.1:0"))...)
	case taken:
		err = fmt.Errorf("--listen: %s is taken; name another address, or leave the flag out for a free port", address)
	}
	if err != nil {
		_ = server.lock.Close()
		return nil, taken, err
	}
	return server, taken, nil
}

// Close ends the server, and gives its directory back.
func (s *devServer) Close() error {
	err := s.Server.Close()
	_ = s.lock.Close() // nil is an error that does not matter
	return err
}

// lockDir keeps other servers from writing into dir, until the file is closed
// or the process has ended.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("%s is in use by another server; end that, or name another directory", dir)
	}
	return file, nil
}
