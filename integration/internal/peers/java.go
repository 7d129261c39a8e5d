package peers

import (
	"context"
	"fmt"
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
	java, err := CompileJava(t.Context(), dir, t.TempDir(), main)
	require.NoError(t, err)
	return java
}

// CompileJava compiles the Java sources of a directory for Curator into an existing one. The error says what to do.
func CompileJava(ctx context.Context, dir, classes, main string) (Java, error) {
	installation, err := zkserver.Find()
	if err != nil {
		return Java{}, err
	}
	jars, err := findCurator()
	if err != nil {
		return Java{}, err
	}
	jars = append(jars, installation.Classpath...)
	sources, err := filepath.Glob(filepath.Join(dir, "*.java"))
	if err != nil {
		return Java{}, err
	}
	command, err := findCompiler(installation.Java)
	if err != nil {
		return Java{}, err
	}
	command = append(command, "-proc:none", "-nowarn", "-d", classes, "-cp", join(jars))
	out, err := exec.CommandContext(ctx, command[0], append(command[1:], sources...)...).CombinedOutput()
	if err != nil {
		return Java{}, fmt.Errorf("compile %s for Curator: %w\n%s", dir, err, out)
	}
	return Java{program: installation.Java, main: main, classpath: join(append([]string{classes}, jars...))}, nil
}

func join(jars []string) string { return strings.Join(jars, string(filepath.ListSeparator)) }

// Command returns what runs the main class with arguments: a short life, a small heap.
func (j Java) Command(args ...string) []string {
	return j.CommandWith([]string{"-XX:TieredStopAtLevel=1", "-Xmx256m"}, args...)
}

// CommandWith returns the same with flags of one's own for the JVM: how it compiles, and how much memory it may use.
func (j Java) CommandWith(flags []string, args ...string) []string {
	command := append([]string{j.program, "-XX:+UseSerialGC", "-XX:-UsePerfData"}, flags...)
	command = append(command,
		"-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true", "-Dfile.encoding=UTF-8",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-Dcurator-dont-log-connection-problems=true",
		"-cp", j.classpath, j.main)
	return append(command, args...)
}

// Jar returns the path of the first jar of its classpath whose name begins with a prefix, or "".
func (j Java) Jar(prefix string) string {
	for _, jar := range filepath.SplitList(j.classpath) {
		if strings.HasPrefix(filepath.Base(jar), prefix) {
			return jar
		}
	}
	return ""
}

// findCurator returns the jars of Curator and of what it needs: those in CURATOR_HOME, and only when that is unset
// Debian's: the runtime finds the rest by what these name,
// the compiler does without.
func findCurator() ([]string, error) {
	if home := os.Getenv("CURATOR_HOME"); home != "" {
		jars, err := filepath.Glob(filepath.Join(home, "*.jar"))
		if err != nil {
			return nil, err
		}
		if !strings.Contains(strings.Join(jars, "\n"), "curator-recipes") {
			return nil, fmt.Errorf(
				"CURATOR_HOME=%s holds no curator-recipes-<version>.jar: put the jars of Curator's recipes, framework and "+
					"client there, with guava, slf4j-api, jackson-core and jackson-databind, or unset it to use Debian's package",
				home)
		}
		return jars, nil
	}
	var jars []string
	for _, name := range []string{
		"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "jackson-core",
		"jackson-databind",
	} {
		jar := filepath.Join(debianJars, name+".jar")
		if _, err := os.Stat(jar); err != nil {
			return nil, fmt.Errorf("no Curator here: run `make setup`, which installs Debian's libcurator-recipes-java; "+
				"on other systems set CURATOR_HOME to a directory with the jars of Curator 5.4 or later and of what it needs: %w",
				err)
		}
		jars = append(jars, jar)
	}
	return jars, nil
}

// findCompiler returns the command of a Java compiler: Eclipse's, which Debian's ZooKeeper brings with it, else javac.
func findCompiler(program string) ([]string, error) {
	if _, err := os.Stat(debianJDT); err == nil {
		return []string{program, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", debianJDT, debianMain, "-11"}, nil
	}
	if javac, err := exec.LookPath(filepath.Join(filepath.Dir(program), "javac")); err == nil {
		return []string{javac, "--release", "11"}, nil
	}
	javac, err := exec.LookPath("javac")
	if err != nil {
		return nil, fmt.Errorf("no Java compiler here: run `make setup`, which installs Debian's libeclipse-jdt-core-java; "+
			"on other systems install a JDK (11 or later): %w", err)
	}
	return []string{javac, "--release", "11"}, nil
}
