package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// file reads a file named in the configuration, relative to its directory.
func (r *reader) file(v value) ([]byte, bool) {
	name, ok := r.text(v, "write the name of a file")
	if !ok {
		return nil, false
	}
	read := readFile
	if r.previous != nil {
		read = readAgain
	}
	data, err := read(r.resolve(name))
	r.read.add(r.resolve(name), data, err)
	if err != nil {
		r.problem(v, fmt.Sprintf("%q cannot be read: %v", r.resolve(name), plainCause(err)), anotherFile(err))
		return nil, false
	}
	return data, true
}

// privateFile is file for one with a password or a private key in it.
func (r *reader) privateFile(v value) ([]byte, bool) {
	data, ok := r.file(v)
	if ok {
		name, _ := r.text(v, "write the name of a file")
		r.secrets = append(r.secrets, r.resolve(name))
	}
	return data, ok
}

func (r *reader) resolve(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(r.dir, name)
}

// readFile reads a whole file, unless it is so large that it cannot be meant.
// It may be a pipe, as that of a shell's <(...), whose writer it waits for.
func readFile(name string) ([]byte, error) { return readOpen(os.Open(name)) }

// readAgain reads a file that may have become anything since it was read first,
// and never waits: a daemon that reads a pipe without a writer could not even
// stop.
func readAgain(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		_ = f.Close()
		return nil, errors.New("is no regular file, the only kind that can be read again")
	}
	return readOpen(f, nil)
}

// readOpen reads a file that was opened, and closes it.
func readOpen(f *os.File, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("is a directory")
	case info.Size() > maxSize:
		return nil, tooLargeError(fmt.Sprintf("has %d bytes, more than %d", info.Size(), maxSize))
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1)) // a device tells no size
	if err == nil && len(data) > maxSize {
		return nil, tooLargeError(fmt.Sprintf("has more than %d bytes", maxSize))
	}
	return data, err
}

// A tooLargeError says how large a file is that is larger than any that is meant.
type tooLargeError string

func (e tooLargeError) Error() string { return string(e) }

// anotherFile is what to do about a file that cannot be read.
func anotherFile(err error) string {
	if errors.As(err, new(tooLargeError)) {
		return "name a smaller file"
	}
	return "name a file that this user can read"
}

// plainCause strips the name of the file and of the call from an error.
func plainCause(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}
