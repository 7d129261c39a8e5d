// Package serverlog keeps the logs of servers whose tests fail in files, so that a failure shows one line and not a
// screen of them.
package serverlog

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Variable names the directory for the files. Where it is not set, they go to lockkeeper-test-logs below the directory
// for temporary files.
const Variable = "LOCKKEEPER_TEST_LOGS"

var unusual = regexp.MustCompile(`[^\w.-]+`)

// Keep writes what a server has logged into a file and prints its path, if the test has failed by now.
func Keep(t testing.TB, server, log string) {
	t.Helper()
	if !t.Failed() {
		return
	}
	path, err := write(t.Name()+"-"+server, log)
	if err != nil {
		t.Logf("the log of ZooKeeper at %s is not kept: %v; its end:\n%s", server, err, log[max(0, len(log)-2000):])
		return
	}
	t.Logf("log of ZooKeeper at %s: %s", server, path)
}

func write(name, log string) (path string, err error) {
	dir := os.Getenv(Variable)
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "lockkeeper-test-logs")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	name = unusual.ReplaceAllString(name, "_")
	file, err := os.CreateTemp(dir, strings.Trim(name[max(0, len(name)-150):], "_")+"-*.log")
	if err != nil {
		return "", err
	}
	if _, err = fmt.Fprintln(file, log); err != nil {
		return "", err
	}
	return file.Name(), file.Close()
}
