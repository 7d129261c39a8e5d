package emergency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/opstore"
)

// OnBoard asks on the board of a client: a question lives in ZooKeeper for as
// long as the process that asks.
func OnBoard(board *opstore.ApprovalBoard) Forum {
	if board == nil {
		return nil
	}
	return boardForum{board}
}

type boardForum struct{ board *opstore.ApprovalBoard }

// errDeadline is the cause of contexts in which people decide.
var errDeadline = errors.New("no decision in time")

// Ask asks anew when the session ends in which it has asked.
func (f boardForum) Ask(ctx context.Context, q lockguard.Question) (lockguard.Answer, error) {
	end := time.Now().Add(q.Patience)
	for pause := again; ; pause = min(2*pause, longAgain) {
		answer, err := f.askOnce(ctx, q, time.Until(end))
		switch {
		case err == nil, ctx.Err() != nil:
			return answer, err
		case errors.Is(err, errDeadline):
			answer.By, answer.Reason = "the deadline", fmt.Sprintf("no decision within %s", q.Patience)
			return answer, nil
		case !errors.As(err, new(*opstore.NoApprovalError)):
			return answer, err
		}
		wait(ctx, nil, pause) // each question is on record, of which no more than so many are kept
	}
}

func (f boardForum) askOnce(
	ctx context.Context, q lockguard.Question, patience time.Duration,
) (answer lockguard.Answer, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errDeadline)
	defer cancel()
	r := q.Request()
	r.Deadline = patience
	open, err := f.board.Open(ctx, r)
	if err != nil {
		return answer, err
	}
	answer.ID = open.ID()
	defer func() { // it goes with the session otherwise
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
		defer cancel()
		_ = open.Close(ctx)
	}()
	if q.Opened != nil {
		q.Opened(ctx, lockguard.Opened{ID: open.ID(), Patience: patience})
	}
	d, err := open.Decision(ctx)
	if err != nil {
		return answer, err
	}
	answer = lockguard.AnswerOf(open.ID(), d)
	answer.Person, answer.Recorded = true, true // who decides tells
	return answer, nil
}
