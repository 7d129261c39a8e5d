package peers

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockkeeper/lockkeeper/integration/internal/process"
	"github.com/lockkeeper/lockkeeper/integration/peers/contestant"
)

// A crew is the processes of one contestant on one site.
type crew struct {
	kind    Kind
	members []*member
}

// A member is one process. It plays one turn at a time.
type member struct {
	process *process.Process
	in      io.WriteCloser
	answers chan contestant.Result // closed when the process has ended
	said    *ending                // on its standard error
}

// recruit starts the processes of a crew. They die with this one.
func recruit(command []string, kind Kind, servers string, session time.Duration, n int) (*crew, error) {
	c := &crew{kind: kind}
	for range n {
		m, err := start(append(slices.Clone(command),
			"--kind", kind.Name, "--server", servers, "--session-ms", strconv.FormatInt(session.Milliseconds(), 10)))
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		c.members = append(c.members, m)
	}
	return c, nil
}

func start(command []string) (*member, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Env = os.Environ()
	out, in := io.Pipe()
	m := &member{answers: make(chan contestant.Result, 1), said: &ending{}}
	cmd.Stdout, cmd.Stderr = in, m.said
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	m.in = stdin
	if m.process, err = process.Start(cmd, func(int) { _ = in.Close() }); err != nil {
		return nil, err
	}
	go func() {
		defer close(m.answers)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var r contestant.Result
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				r.Error = fmt.Sprintf("cannot read %q: %v", lines.Text(), err)
			}
			m.answers <- r
		}
		_, _ = io.Copy(io.Discard, out)
	}()
	return m, nil
}

// errHung says that a contestant did not answer.
var errHung = errors.New("did not answer in time, and was ended")

// play lets all members play their turns at once. A member that has not answered when the limit is over is killed,
// and the crew with it: it cannot be used any more.
func (c *crew) play(
	ctx context.Context, limit time.Duration, turn func(member int) contestant.Turn,
) (contestant.Result, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errHung)
	defer cancel()
	results := make([]contestant.Result, len(c.members))
	errs := make([]error, len(c.members))
	var all sync.WaitGroup
	for i, m := range c.members {
		all.Go(func() { results[i], errs[i] = m.play(ctx, turn(i)) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return contestant.Result{}, errors.Join(err, c.kill())
	}
	return merge(results), nil
}

func (m *member) play(ctx context.Context, turn contestant.Turn) (contestant.Result, error) {
	line, err := json.Marshal(turn)
	if err != nil {
		return contestant.Result{}, err
	}
	if _, err := m.in.Write(append(line, '\n')); err != nil {
		return contestant.Result{}, m.errorf("cannot be told: %w", err)
	}
	select {
	case r, ok := <-m.answers:
		if !ok {
			return r, m.errorf("has ended")
		}
		if r.Error != "" {
			return r, m.errorf("%s", r.Error)
		}
		return r, nil
	case <-ctx.Done():
		return contestant.Result{}, m.errorf("%w", context.Cause(ctx))
	}
}

func (m *member) errorf(format string, args ...any) error {
	err := fmt.Errorf("process %d "+format, append([]any{m.process.PID()}, args...)...)
	if said := m.said.String(); said != "" {
		err = fmt.Errorf("%w; it said: %s", err, said)
	}
	return err
}

// merge adds up what the members of a crew have measured.
func merge(results []contestant.Result) contestant.Result {
	if len(results) == 1 {
		return results[0]
	}
	var sum contestant.Result
	var medians []float64
	for _, r := range results {
		sum.Cycles += r.Cycles
		sum.Late += r.Late
		sum.Seconds = max(sum.Seconds, r.Seconds)
		sum.CPUMillis += r.CPUMillis
		sum.Errors += r.Errors
		sum.Violations += r.Violations
		sum.FirstError = cmp.Or(sum.FirstError, r.FirstError)
		sum.P99Micros = max(sum.P99Micros, r.P99Micros)
		medians = append(medians, r.P50Micros)
	}
	sum.P50Micros = median(medians)
	return sum
}

// close ends the processes: asked first, then for certain.
func (c *crew) close() error {
	for _, m := range c.members {
		_ = m.in.Close()
	}
	limit := time.NewTimer(10 * time.Second)
	defer limit.Stop()
	for _, m := range c.members {
		for open := true; open; {
			select {
			case _, open = <-m.answers:
			case <-limit.C:
				return c.kill()
			}
		}
	}
	return c.kill()
}

func (c *crew) kill() error {
	var errs []error
	for _, m := range c.members {
		errs = append(errs, m.process.Kill(), m.in.Close())
	}
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool { return errors.Is(err, os.ErrClosed) })...)
}

// An ending keeps the last of what was written to it.
type ending struct {
	mu   sync.Mutex
	text []byte
}

func (e *ending) Write(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	const most = 2000
	e.text = append(e.text, p...)
	e.text = slices.Clone(e.text[max(0, len(e.text)-most):])
	return len(p), nil
}

func (e *ending) String() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.TrimSpace(string(e.text))
}
