package temporal

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
)

// Check asks the server whether it is there and has the namespace, and changes
// nothing. The error says what is wrong: it does not answer, it has no such
// namespace, or it refuses us.
func Check(ctx context.Context, o Options) error {
	c, err := NewClient(o)
	if err != nil {
		return err
	}
	defer c.Close()
	namespace := cmp.Or(o.Namespace, "default")
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	var (
		missing *serviceerror.NamespaceNotFound
		unknown *serviceerror.NotFound
		refused *serviceerror.PermissionDenied
	)
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing), errors.As(err, &unknown):
		return fmt.Errorf("the server has no namespace %s", namespace)
	case errors.As(err, &refused):
		return fmt.Errorf("the server refuses access to the namespace %s: %w", namespace, err)
	case ctx.Err() != nil, errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer in time: %w", err)
	}
	return fmt.Errorf("no answer: %w", err)
}
