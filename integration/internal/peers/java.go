package peers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/integration/zkserver"
)

const (
	debianJars = "/usr/share/java"
	debianJDT  = debianJars + "/eclipse-jdt-core.jar" // a compiler that needs a Java runtime only
	debianMain = "org.eclipse.jdt.internal.compiler.batch.Main"
)

// A Java is a program for Curator.
type Java struct {
	program   string
	classpath string
	main      string
}

// BuildJava compiles the Java sources of a directory for Curator, or fails and says what to do.
func BuildJava(t *testing.T, dir, main string) Java {
	t.Helper()
	installation, err := zkserver.Find()
	require.NoError(t, err)
	jars := append(findCurator(t), installation.Classpath...)
	classes := t.TempDir()
	sources, err := filepath.Glob(filepath.Join(dir, "*.java"))
	require.NoError(t, err)
	command := append(findCompiler(t, installation.Java), "-proc:none", "-nowarn", "-d", classes, "-cp", join(jars))
	out, err := exec.CommandContext(t.Context(), command[0], append(command[1:], sources...)...).CombinedOutput()
	require.NoError(t, err, "compile %s for Curator:\n%s", dir, out)
	return Java{program: installation.Java, main: main, classpath: join(append([]string{classes}, jars...))}
}

func join(jars []string) string { return strings.Join(jars, string(filepath.ListSeparator)) }

// Command returns what runs the main class with arguments: a short life, a small heap.
func (j Java) Command(args ...string) []string {
	return append([]string{
		j.program, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xmx256m",
		"-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true", "-Dfile.encoding=UTF-8",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Dcurator-dont-log-connection-problems=true",
		"-cp", j.classpath, j.main,
	}, args...)
}

// findCurator returns the jars of Curator and of what it needs: those in CURATOR_HOME, and only when that is unset
// Debian's: the runtime finds the rest by what these name,
// the compiler does without.
func findCurator(t *testing.T) []string {
	t.Helper()
	if home := os.Getenv("CURATOR_HOME"); home != "" {
		jars, err := filepath.Glob(filepath.Join(home, "*.jar"))
		require.NoError(t, err)
		require.Contains(t, strings.Join(jars, "\n"), "curator-recipes",
			"CURATOR_HOME=%s holds no curator-recipes-<version>.jar: put the jars of Curator's recipes, framework and "+
				"client there, with guava, slf4j-api and jackson-databind, or unset it to use Debian's package", home)
		return jars
	}
	var jars []string
	for _, name := range []string{"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute"} {
		jar := filepath.Join(debianJars, name+".jar")
		_, err := os.Stat(jar)
		require.NoError(t, err, "no Curator here: run `make setup`, which installs Debian's libcurator-recipes-java; "+
			"on other systems set CURATOR_HOME to a directory with the jars of Curator 5.4 or later and of what it needs")
		jars = append(jars, jar)
	}
	return jars
}

// findCompiler returns the command of a Java compiler: Eclipse's, which Debian's ZooKeeper brings with it, else javac.
func findCompiler(t *testing.T, program string) []string {
	t.Helper()
	if _, err := os.Stat(debianJDT); err == nil {
		return []string{program, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", debianJDT, debianMain, "-11"}
	}
	if javac, err := exec.LookPath(filepath.Join(filepath.Dir(program), "javac")); err == nil {
		return []string{javac, "--release", "11"}
	}
	javac, err := exec.LookPath("javac")
	require.NoError(t, err, "no Java compiler here: run `make setup`, which installs Debian's libeclipse-jdt-core-java; "+
		"on other systems install a JDK (11 or later)")
	return []string{javac, "--release", "11"}
}
