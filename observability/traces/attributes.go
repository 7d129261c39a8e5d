package traces

import (
	"go.opentelemetry.io/otel/attribute"

	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/recipes"
)

// What spans, their events and their links say.
const (
	scopeKey      = attribute.Key("lockkeeper.scope")
	ownerKey      = attribute.Key("lockkeeper.owner")
	messageKey    = attribute.Key("lockkeeper.message")
	modeKey       = attribute.Key("lockkeeper.mode")
	priorityKey   = attribute.Key("lockkeeper.priority")
	requestKey    = attribute.Key("lockkeeper.request.id")
	holdKey       = attribute.Key("lockkeeper.hold.id") // of a hold that outlives its process
	tokenKey      = attribute.Key("lockkeeper.token")   // decimal: it may be too large for a viewer's numbers
	outcomeKey    = attribute.Key("lockkeeper.outcome")
	endKey        = attribute.Key("lockkeeper.end")
	lossKey       = attribute.Key("lockkeeper.loss")
	queuePosition = attribute.Key("lockkeeper.queue.position")
	blockersTotal = attribute.Key("lockkeeper.blockers.total")
	preemptReason = attribute.Key("lockkeeper.preempt.reason")
	graceKey      = attribute.Key("lockkeeper.grace_seconds")
	leaseKey      = attribute.Key("lockkeeper.lease_seconds")
	forcefulKey   = attribute.Key("lockkeeper.forceful")
	workRunning   = attribute.Key("lockkeeper.work.running")
	hooksKey      = attribute.Key("lockkeeper.hooks")
	overrideID    = attribute.Key("lockkeeper.override.id")
	approvalKey   = attribute.Key("lockkeeper.approval.id")
	approvedKey   = attribute.Key("lockkeeper.approval.approved")
	linkRole      = attribute.Key("lockkeeper.link.role")
	otherOwner    = attribute.Key("lockkeeper.other.owner")
	otherPriority = attribute.Key("lockkeeper.other.priority")
	errorType     = attribute.Key("error.type")
)

func describe(s lockguard.Subject) []attribute.KeyValue {
	all := []attribute.KeyValue{
		scopeKey.String(s.Scope),
		ownerKey.String(s.Owner),
		modeKey.String(s.Mode.String()),
		priorityKey.Int(int(s.Priority)),
		requestKey.String(s.ID),
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
func contender(c recipes.Contender) []attribute.KeyValue {
	return []attribute.KeyValue{otherOwner.String(c.Owner), otherPriority.Int(int(c.Priority))}
}
