package zkserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	debianJar   = "/usr/share/java/zookeeper.jar"
	debianSLF4J = "/usr/share/java/slf4j-simple.jar" // Debian's jar names no logger of its own
	mainClass   = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
)

// Installation is a ZooKeeper on this machine that can be started.
type Installation struct {
	// Java is the path of the java program: of $JAVA_HOME, else of $PATH.
	Java string
	// Jar is the path of ZooKeeper's own jar.
	Jar string
	// Classpath holds everything that ZooKeeper needs, Jar included.
	Classpath []string
}

// Find looks for ZooKeeper in $ZOOKEEPER_HOME (an unpacked Apache release: jars in it or in its lib), and
// only when that is unset for Debian's package. The error says what to do.
func Find() (Installation, error) {
	java, err := findJava()
	if err != nil {
		return Installation{}, err
	}
	if home := os.Getenv("ZOOKEEPER_HOME"); home != "" {
		return findIn(home, java)
	}
	if _, err := os.Stat(debianJar); errors.Is(err, fs.ErrNotExist) {
		return Installation{}, fmt.Errorf("zkserver: no ZooKeeper here: ZOOKEEPER_HOME is not set and %s does not exist; "+
			"run `make setup`, or set ZOOKEEPER_HOME to an unpacked Apache ZooKeeper release", debianJar)
	} else if err != nil {
		return Installation{}, fmt.Errorf("zkserver: look for ZooKeeper: %w", err)
	}
	return Installation{Java: java, Jar: debianJar, Classpath: []string{debianJar, debianSLF4J}}, nil
}

func findIn(home, java string) (Installation, error) {
	var jars []string
	for _, dir := range []string{home, filepath.Join(home, "lib")} {
		found, err := filepath.Glob(filepath.Join(dir, "*.jar"))
		if err != nil {
			return Installation{}, fmt.Errorf("zkserver: look for jars in ZOOKEEPER_HOME=%s: %w", home, err)
		}
		jars = append(jars, found...)
	}
	for _, jar := range jars {
		if isServerJar(filepath.Base(jar)) {
			return Installation{Java: java, Jar: jar, Classpath: jars}, nil
		}
	}
	return Installation{},
		fmt.Errorf("zkserver: ZOOKEEPER_HOME=%s holds no zookeeper-<version>.jar, neither directly nor in lib: "+
			"set it to an unpacked Apache ZooKeeper release, or unset it to use Debian's package", home)
}

// isServerJar tells zookeeper-3.9.3.jar from zookeeper-jute-3.9.3.jar.
func isServerJar(name string) bool {
	rest, ok := strings.CutPrefix(name, "zookeeper")
	if !ok {
		return false
	}
	rest = strings.TrimPrefix(rest, "-")
	return rest == ".jar" || (rest[0] >= '0' && rest[0] <= '9')
}

func findJava() (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" {
		java, err := exec.LookPath(filepath.Join(home, "bin", "java"))
		if err != nil {
			return "",
				fmt.Errorf("zkserver: JAVA_HOME=%s has no bin/java: correct it, or unset it to use java from PATH: %w", home, err)
		}
		return java, nil
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", fmt.Errorf(
			"zkserver: no java to run ZooKeeper with: run `make setup`, or install a Java runtime (11 or later): %w", err)
	}
	return java, nil
}
