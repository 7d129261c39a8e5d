package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	sd "github.com/coreos/go-systemd/v22/daemon"

	"github.com/lockkeeper/lockkeeper/config"
	"github.com/lockkeeper/lockkeeper/internal/words"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
	"github.com/lockkeeper/lockkeeper/scheduler"
)

const (
	// statusEvery is how often the service manager gets a status line, if it has changed.
	statusEvery = 5 * time.Second

	// sendPatience bounds a message to a service manager that reads none: the daemon goes on without.
	sendPatience = time.Second

	// stopMargin is what closing the session and the servers may take after the drain.
	stopMargin = 30 * time.Second
)

// serviceManager is what has started the daemon and waits for its messages: systemd with
// Type=notify, or another program that speaks sd_notify(3). nil: there is none.
type serviceManager struct {
	log      *slog.Logger
	socket   *net.UnixAddr
	watchdog time.Duration // it expects a sign of life so often; 0: none
	daemon   *runningDaemon

	mu      sync.Mutex
	status  string // as it was told last
	failing bool   // the last message was not sent
	still   bool   // no sign of life was due at the last beat
}

// runningDaemon is what its status is made of.
type runningDaemon struct {
	ctx      context.Context // ends when it drains
	client   *lock.Client
	reloader *config.Reloader
	schedule *scheduler.Scheduler
	alive    func() bool // the loop that fires ticks is
}

// newServiceManager reads what the service manager has put into the environment, and removes it from there: it is
// for this process and not for the jobs.
func newServiceManager(logger *slog.Logger) *serviceManager {
	name := os.Getenv("NOTIFY_SOCKET")
	_ = os.Unsetenv("NOTIFY_SOCKET")
	interval, err := sd.SdWatchdogEnabled(true)
	if name == "" {
		return nil
	}
	if err != nil {
		logger.Warn("the watchdog of the service manager is not served", "error", err)
	}
	// a huge one overflows
	return &serviceManager{log: logger, socket: &net.UnixAddr{Name: name, Net: "unixgram"}, watchdog: max(interval, 0)}
}

// send sends one message. The library's SdNotify reads the name of the socket from the environment each time.
func (m *serviceManager) send(message string) {
	err := m.write(message)
	if err != nil && !m.failing {
		m.log.Warn("the service manager is not told of the daemon's state", "socket", m.socket.Name, "error", err)
	}
	m.failing = err != nil
}

func (m *serviceManager) write(message string) error {
	conn, err := net.DialUnix(m.socket.Net, nil, m.socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(sendPatience)); err != nil {
		return err
	}
	_, err = conn.Write([]byte(message))
	return err
}

// ready says that the daemon serves. It does not wait for ZooKeeper: the daemon keeps trying by itself, and a service
// manager would end it after a while (TimeoutStartSec) and hold up what starts after it.
func (m *serviceManager) ready(d *runningDaemon) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.daemon = d
	m.status = m.statusLine()
	m.send(sd.SdNotifyReady + "\nSTATUS=" + m.status)
}

// reloading has the file read again and says when that is over. A service manager waits for it.
func (m *serviceManager) reloading(reload func() error) {
	if m == nil {
		_ = reload() // logged
		return
	}
	m.mu.Lock()
	m.send(sd.SdNotifyReloading + "\n" + sd.SdNotifyMonotonicUsec() + "STATUS=reading the configuration")
	m.mu.Unlock()
	_ = reload() // logged, and part of the status
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.daemon != nil && m.daemon.ctx.Err() != nil {
		return // it is stopping
	}
	m.status = m.statusLine()
	m.send(sd.SdNotifyReady + "\nSTATUS=" + m.status)
}

// stopping says that the daemon drains, and that it can take so long.
func (m *serviceManager) stopping(limit time.Duration) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.status = m.statusLine()
	m.send(fmt.Sprintf("%s\nEXTEND_TIMEOUT_USEC=%d\nSTATUS=%s",
		sd.SdNotifyStopping, (limit + stopMargin).Microseconds(), m.status))
}

// tell tells what the daemon does, if that has changed.
func (m *serviceManager) tell() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if line := m.statusLine(); line != m.status {
		m.status = line
		m.send("STATUS=" + line)
	}
}

// beat is a sign of life. The caller is the daemon's main loop; that which fires ticks has to run as well.
func (m *serviceManager) beat() {
	alive := m.daemon.alive()
	m.mu.Lock()
	defer m.mu.Unlock()
	if !alive && !m.still {
		m.log.Error("the loop that fires ticks stands still; the service manager gets no sign of life")
	}
	m.still = !alive
	if !alive {
		return
	}
	m.send(sd.SdNotifyWatchdog)
}

// ticks are when to tell and to beat: never for nil.
func (m *serviceManager) ticks() (tell, beat <-chan time.Time, stop func()) {
	if m == nil {
		return nil, nil, func() {}
	}
	// So often that one short stall, such as a suspended machine's, costs no more than a beat.
	interval := m.watchdog / 6
	telling, beating := time.NewTicker(statusEvery), time.NewTicker(cmp.Or(interval, time.Hour))
	if interval > 0 {
		beat = beating.C
	}
	return telling.C, beat, func() {
		telling.Stop()
		beating.Stop()
	}
}

// statusLine is what systemctl status shows.
func (m *serviceManager) statusLine() string {
	d, running := m.daemon, 0
	if d == nil {
		return "starts"
	}
	all := d.schedule.Stats()
	for _, s := range all {
		running += s.Running
	}
	health := healthOf(d.ctx, d.client)
	line := fmt.Sprintf("%s, %s; ZooKeeper: %s",
		words.Count(len(all), "job"), words.Count(running, "run"), health.ZooKeeper)
	if d.ctx.Err() != nil {
		line = "draining; " + line
	}
	if !d.reloader.Status().OK {
		line += "; the file was refused, the configuration before it stays in force: see the log"
	}
	return line
}
