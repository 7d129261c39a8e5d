package traces

import (
	otel "go.opentelemetry.io/otel/attribute"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

type attribute = otel.KeyValue

// What samplers look at.
const (
	BlockersTotal = otel.Key("lockkeeper.blockers.total") // of a wait: how many holders it has seen in its way
	LinkRole      = otel.Key("lockkeeper.link.role")      // of a link: see the package
	RoleBlockedBy = "blocked_by"                          // the role of what is in the way of a wait
)

// What spans, their events and their links say.
const (
	scopeKey       = otel.Key("lockkeeper.scope")
	classKey       = otel.Key("lockkeeper.lock.class") // as in the metrics
	ownerKey       = otel.Key("lockkeeper.owner")
	messageKey     = otel.Key("lockkeeper.message")
	modeKey        = otel.Key("lockkeeper.mode")
	priorityKey    = otel.Key("lockkeeper.priority")
	requestKey     = otel.Key("lockkeeper.request.id")
	holdKey        = otel.Key("lockkeeper.hold.id") // of a hold that outlives its process
	tokenKey       = otel.Key("lockkeeper.token")   // decimal: it may be too large for a viewer's numbers
	outcomeKey     = otel.Key("lockkeeper.outcome")
	endKey         = otel.Key("lockkeeper.end")
	causeKey       = otel.Key("lockkeeper.cause")
	lossKey        = otel.Key("lockkeeper.loss")
	queuePosition  = otel.Key("lockkeeper.queue.position")
	blockersKey    = otel.Key("lockkeeper.blockers")
	preemptReason  = otel.Key("lockkeeper.preempt.reason")
	graceKey       = otel.Key("lockkeeper.grace_seconds")
	deadlineKey    = otel.Key("lockkeeper.deadline")
	leaseKey       = otel.Key("lockkeeper.lease_seconds")
	forcefulKey    = otel.Key("lockkeeper.forceful")
	workRunning    = otel.Key("lockkeeper.work.running")
	hooksKey       = otel.Key("lockkeeper.hooks")
	overrideID     = otel.Key("lockkeeper.override.id")
	approvalKey    = otel.Key("lockkeeper.approval.id")
	approvedKey    = otel.Key("lockkeeper.approval.approved")
	otherOwner     = otel.Key("lockkeeper.other.owner")
	otherPriority  = otel.Key("lockkeeper.other.priority")
	errorType      = otel.Key("error.type")
	jobKey         = otel.Key("lockkeeper.job")
	runKey         = otel.Key("lockkeeper.run.id")
	tickKey        = otel.Key("lockkeeper.tick")
	manualKey      = otel.Key("lockkeeper.run.manual")
	attemptsKey    = otel.Key("lockkeeper.run.attempts")
	preemptionsKey = otel.Key("lockkeeper.run.preemptions")
	skipKey        = otel.Key("lockkeeper.skip.reason")
)

func describe(s lockguard.Subject) []attribute {
	all := append(make([]attribute, 0, 9), // with the token
		scopeKey.String(s.Scope),
		ownerKey.String(s.Owner),
		modeKey.String(s.Mode.String()),
		priorityKey.Int(int(s.Priority)),
		requestKey.String(s.ID),
	)
	if s.Class != "" {
		all = append(all, classKey.String(s.Class))
	}
	if s.Hold != "" {
		all = append(all, holdKey.String(s.Hold))
	}
	if s.Message != "" {
		all = append(all, messageKey.String(s.Message))
	}
	return all
}

// contender says who the other side is.
func contender(c lock.Contender) []attribute {
	return []attribute{otherOwner.String(c.Owner), otherPriority.Int(int(c.Priority))}
}
