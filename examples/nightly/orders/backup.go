package orders

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A Backup writes a tar file of the data set. Until it is finished, Discard
// removes it.
type Backup struct {
	set   *Set
	token int64
	name  string
	file  *os.File
	sum   hash.Hash
	tar   *tar.Writer
}

// BeginBackup starts a backup under the token of a lock, 0 without one. It
// first puts back what a dead writer left half done.
func (s *Set) BeginBackup(token int64) (*Backup, error) {
	if _, err := s.Restore(token); err != nil {
		return nil, err
	}
	if _, err := s.Discard(token); err != nil {
		return nil, err
	}
	others, err := s.backups()
	if err != nil {
		return nil, fmt.Errorf("begin a backup: %w", err)
	}
	number := 1
	if len(others) > 0 {
		last := strings.TrimSuffix(filepath.Base(others[len(others)-1]), ".tar")
		if _, err := fmt.Sscanf(last, "backup-%d", &number); err != nil {
			return nil, fmt.Errorf("begin a backup: %s has no number: %w", last, err)
		}
		number++
	}
	name := s.path(backupsDir, fmt.Sprintf("backup-%06d.tar", number))
	file, err := os.Create(name + partialSuffix)
	if err != nil {
		return nil, fmt.Errorf("begin a backup: %w", err)
	}
	b := &Backup{set: s, token: token, name: name, file: file, sum: sha256.New()}
	b.tar = tar.NewWriter(io.MultiWriter(file, b.sum))
	return b, nil
}

// Files returns the names of the files to Add.
func (b *Backup) Files() []string {
	names := []string{manifestName}
	for i := range segments {
		names = append(names, segmentName(i))
	}
	return append(names, journalName)
}

// Add copies one file as it is now.
func (b *Backup) Add(name string) error {
	data, err := os.ReadFile(b.set.path(dataDir, name))
	if err == nil {
		err = b.tar.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(data))})
	}
	if err == nil {
		_, err = b.tar.Write(data)
	}
	if err != nil {
		return fmt.Errorf("back up %s: %w", name, err)
	}
	return nil
}

// backups returns the names of all that were finished, the oldest first.
func (s *Set) backups() ([]string, error) { return filepath.Glob(s.path(backupsDir, "*.tar")) }

// Finish writes the checksum and gives the backup its name. The ten newest ones
// are kept.
func (b *Backup) Finish() error {
	err := errors.Join(b.tar.Close(), b.file.Close())
	if err == nil {
		err = b.set.fenced(b.token, func() error {
			line := hex.EncodeToString(b.sum.Sum(nil)) + "  " + filepath.Base(b.name) + "\n"
			if err := os.WriteFile(b.name+".sha256", []byte(line), 0o644); err != nil {
				return err
			}
			if err := os.Rename(b.name+partialSuffix, b.name); err != nil {
				return err
			}
			return b.set.dropOldBackups()
		})
	}
	if err != nil {
		return fmt.Errorf("finish the backup: %w", err)
	}
	return nil
}

const backupsKept = 10

func (s *Set) dropOldBackups() error {
	names, err := s.backups()
	for len(names) > backupsKept {
		err = errors.Join(err, os.Remove(names[0]), os.Remove(names[0]+".sha256"))
		names = names[1:]
	}
	return err
}

// Close gives back what the backup needs of the system. It does not finish it.
func (b *Backup) Close() error {
	err := b.file.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// Discard removes backups that were not finished, and returns how many.
func (s *Set) Discard(token int64) (files int, err error) {
	discard := func() error {
		names, err := filepath.Glob(s.path(backupsDir, "*"+partialSuffix))
		for _, name := range names {
			if err := os.Remove(name); err != nil {
				return err
			}
			files++
		}
		return err
	}
	if err := s.fenced(token, discard); err != nil {
		return files, fmt.Errorf("discard an unfinished backup: %w", err)
	}
	return files, nil
}

// readBackup returns the files of a backup whose checksum is right.
func readBackup(name string) (map[string][]byte, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	line, err := os.ReadFile(name + ".sha256")
	if err != nil {
		return nil, err
	}
	if want, _, _ := strings.Cut(string(line), " "); want != checksum(data) {
		return nil, errors.New("it does not match its checksum")
	}
	files := make(map[string][]byte)
	for archive := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		if files[header.Name], err = io.ReadAll(archive); err != nil {
			return nil, err
		}
	}
}
