package config

import (
	"crypto/sha256"
	"maps"
	"slices"
)

// contents are the files that a configuration was made of, by name, each as
// the checksum of what was read. A file that could not be read is one, too: it
// may come.
type contents map[string][sha256.Size]byte

// add records what was read.
func (c contents) add(name string, data []byte, err error) { c[name] = checksum(data, err) }

// changed reports whether a file is not what it was.
func (c contents) changed() bool {
	for name, was := range c {
		if checksum(readAgain(name)) != was {
			return true
		}
	}
	return false
}

func (c contents) files() []string { return slices.Sorted(maps.Keys(c)) }

func checksum(data []byte, err error) [sha256.Size]byte {
	if err != nil {
		data = []byte("\x00" + plainCause(err).Error())
	}
	return sha256.Sum256(data)
}
