package temporal

import (
	"fmt"
	"strings"

	"github.com/lockkeeper/lockkeeper/lockguard"
)

// StartError says that a workflow could not be started. If the server did not
// answer, the workflow may be there all the same: another attempt finds it.
type StartError struct {
	Err      error
	ID       string // of the workflow
	Workflow string // its type
}

func (e *StartError) Error() string {
	return fmt.Sprintf("workflow %s (id %s) could not be started: %v", e.Workflow, e.ID, e.Err)
}

// Unwrap returns why; errors.As finds the SDK's errors.
func (e *StartError) Unwrap() error { return e.Err }

// WorkflowError says that a workflow was closed without having completed, or
// that it is not known how.
type WorkflowError struct {
	Err      error
	ID       string // of the workflow
	RunID    string
	Workflow string // its type
}

func (e *WorkflowError) Error() string {
	return fmt.Sprintf("workflow %s (id %s, run %s) did not complete: %v", e.Workflow, e.ID, e.RunID, e.Err)
}

// Unwrap returns why; errors.As finds the SDK's errors, such as
// *temporal.ApplicationError.
func (e *WorkflowError) Unwrap() error { return e.Err }

// StoppedError says that the work was cancelled, or was not started because
// it would have been. errors.Is and errors.As find the cause.
type StoppedError struct {
	Cause      error  // of the context; or what else ended the right to run
	Closed     bool   // the workflow is closed
	Err        error  // how it was closed, nil if it has completed; else what went wrong with ending it
	ID         string // of the workflow
	RunID      string // "" if it is not known to have been started
	Terminated bool   // it was terminated
	Workflow   string // its type
}

func (e *StoppedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "workflow %s (id %s) was stopped: %v", e.Workflow, e.ID, e.Cause)
	switch {
	case e.RunID == "":
	case e.Terminated:
		b.WriteString("; it had to be terminated")
	case e.Closed && e.Err == nil:
		b.WriteString("; it has completed")
	case e.Closed:
		fmt.Fprintf(&b, "; it was closed: %v", reason(e.Err))
	case e.Err != nil:
		fmt.Fprintf(&b, "; it may go on: %v", e.Err)
	default:
		b.WriteString("; its cancellation was requested, and it may go on")
	}
	return b.String()
}

// Is makes errors.Is find lockguard.ErrStopped: a guard then runs the hooks.
func (e *StoppedError) Is(target error) bool { return target == lockguard.ErrStopped }

// Unwrap returns the cause.
func (e *StoppedError) Unwrap() error { return e.Cause }
