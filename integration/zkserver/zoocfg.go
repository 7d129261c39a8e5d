package zkserver

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/integration/internal/loopback"
)

// member is a server's place in an ensemble: its number and the ports it talks to the others on.
type member struct {
	id             int
	client         *loopback.Port
	quorum, ballot *loopback.Port // nil: standalone
	observer       bool
}

// writeConfig writes zoo.cfg, myid and the loggers' configuration into dir. view tells where this member
// finds the others; nil is at their own addresses.
func writeConfig(dir string, o options, me member, all []member, view map[int]addresses) error {
	lines := []string{
		"tickTime=" + strconv.FormatInt(o.tick.Milliseconds(), 10),
		"dataDir=" + dataDir(dir),
		"clientPortAddress=127.0.0.1",
		"clientPort=" + strconv.Itoa(me.client.Number()),
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		"maxClientCnxns=0",
		"forceSync=" + map[bool]string{true: "yes", false: "no"}[o.fsync],
	}
	if o.minSession > 0 {
		lines = append(lines,
			"minSessionTimeout="+strconv.FormatInt(o.minSession.Milliseconds(), 10),
			"maxSessionTimeout="+strconv.FormatInt(o.maxSession.Milliseconds(), 10))
	}
	if me.quorum != nil {
		// A busy machine may hold a JVM back for a second: with short ticks allow more of them than usual.
		lines = append(lines, ticks("initLimit", 10_000, o), ticks("syncLimit", 3_000, o))
		for _, m := range all {
			at, ok := view[m.id]
			if !ok {
				at = m.addresses()
			}
			line := fmt.Sprintf("server.%d=%s:%s", m.id, at.quorum, at.ballot[strings.LastIndexByte(at.ballot, ':')+1:])
			if m.observer {
				line += ":observer"
			}
			lines = append(lines, line)
		}
		if me.observer {
			lines = append(lines, "peerType=observer")
		}
	}
	for _, s := range o.settings {
		lines = append(lines, s.key+"="+s.value)
	}
	if err := os.MkdirAll(dataDir(dir), 0o700); err != nil {
		return fmt.Errorf("write ZooKeeper's configuration: %w", err)
	}
	for path, text := range map[string]string{
		configFile(dir):                        strings.Join(lines, "\n") + "\n",
		filepath.Join(dataDir(dir), "myid"):    strconv.Itoa(me.id) + "\n",
		filepath.Join(dir, "logback.xml"):      logback,
		filepath.Join(dir, "log4j.properties"): log4j,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return fmt.Errorf("write ZooKeeper's configuration: %w", err)
		}
	}
	return nil
}

// ticks renders a limit that ZooKeeper counts in ticks: that many milliseconds, at least the usual 5 ticks.
func ticks(key string, milliseconds int64, o options) string {
	return key + "=" + strconv.FormatInt(max(5, milliseconds/o.tick.Milliseconds()), 10)
}

func dataDir(dir string) string    { return filepath.Join(dir, "data") }
func configFile(dir string) string { return filepath.Join(dir, "zoo.cfg") }
func logFile(dir string) string    { return filepath.Join(dir, "zookeeper.log") }

// command returns the java arguments. dir comes first on the classpath: whichever logger a release brings finds its
// configuration there.
func command(in Installation, o options, dir string) []string {
	args := []string{
		"-XX:+UseSerialGC", fmt.Sprintf("-Xmx%dm", o.heapMB), "-XX:-UsePerfData",
		"-Djava.awt.headless=true", "-Djava.net.preferIPv4Stack=true",
		"-Dzookeeper.jmx.log4j.disable=true",
		"-Dorg.slf4j.simpleLogger.showDateTime=true",
		"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dorg.slf4j.simpleLogger.showShortLogName=true",
	}
	if !o.optimise {
		args = append(args, "-XX:TieredStopAtLevel=1")
	}
	if o.peerLinks {
		// Where networks break all the time, members ask again sooner than after up to a minute.
		args = append(args, "-Dzookeeper.fastleader.maxNotificationInterval=400", "-Dzookeeper.cnxTimeout=1000")
	}
	args = append(args, o.jvmFlags...)
	classpath := strings.Join(append([]string{dir}, in.Classpath...), string(filepath.ListSeparator))
	return append(args, "-cp", classpath, mainClass, configFile(dir))
}

const logback = `<configuration>
  <appender name="OUT" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d{HH:mm:ss.SSS} [%thread] %p %logger{0} - %m%n</pattern></encoder>
  </appender>
  <root level="INFO"><appender-ref ref="OUT"/></root>
</configuration>
`

const log4j = `log4j.rootLogger=INFO, OUT
log4j.appender.OUT=org.apache.log4j.ConsoleAppender
log4j.appender.OUT.layout=org.apache.log4j.PatternLayout
log4j.appender.OUT.layout.ConversionPattern=%d{HH:mm:ss.SSS} [%t] %p %c{1} - %m%n
`
