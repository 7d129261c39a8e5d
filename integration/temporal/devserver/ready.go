package devserver

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"

	"github.com/lockkeeper/lockkeeper/integration/internal/process"
)

// ready returns when all parts of the server answer.
func (s *Server) ready(ctx context.Context) error {
	// A connection that is refused costs the client a second of pause: wait for the port first.
	err := s.poll(ctx, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp4", s.Addr())
		if err != nil {
			return err
		}
		return conn.Close()
	})
	if err != nil {
		return err
	}
	frontend, err := client.NewLazyClient(s.options("default"))
	if err != nil {
		return err
	}
	defer frontend.Close()
	return s.poll(ctx, func(ctx context.Context) error { return takesWork(ctx, frontend) })
}

// takesWork returns nil when history and matching serve the client's namespace.
func takesWork(ctx context.Context, c client.Client) error {
	_, err := c.DescribeWorkflowExecution(ctx, "no-such-workflow", "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); !ok {
		return errors.Join(err, errors.New("history does not answer yet"))
	}
	_, err = c.DescribeTaskQueue(ctx, "no-such-queue", enums.TASK_QUEUE_TYPE_WORKFLOW)
	return err
}

// inNamespace returns nil when the client's namespace is there.
func inNamespace(ctx context.Context, c client.Client, name string) error {
	_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: name})
	if err != nil {
		return err
	}
	return takesWork(ctx, c)
}

func (s *Server) poll(ctx context.Context, check func(context.Context) error) error {
	return process.Poll(ctx, 10*time.Millisecond, func() error {
		if !s.Alive() {
			return process.ErrEnded
		}
		attempt, done := context.WithTimeout(ctx, 5*time.Second)
		defer done()
		return check(attempt)
	})
}

func (s *Server) options(namespace string) client.Options {
	return client.Options{
		HostPort:  s.Addr(),
		Namespace: namespace,
		Logger:    log.NewStructuredLogger(slog.New(slog.DiscardHandler)),
	}
}
