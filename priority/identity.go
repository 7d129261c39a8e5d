package priority

import (
	"errors"
	"fmt"

	"github.com/lockkeeper/lockkeeper/internal/words"
)

// Identity is what a request says of itself, for people and for observers. Only Hold changes what the lock does. Two
// requests with the same Identity are different requests: their ID tells them apart.
//
// This is the one declaration of the identity: requests, their events and what ZooKeeper shows of them embed it.
type Identity struct {
	// Owner names the work, for example a job's name. At most MaxOwner bytes. Defaults to "host:pid".
	Owner string

	// Host is the machine of the process. The client sets it.
	Host string

	// PID is the process on that machine. The client sets it.
	PID int

	// Message says why the lock is wanted. At most MaxMessage bytes. Defaults to "".
	Message string

	// Hold is the id of the hold that the request is for. It is unique for each hold, for example made of the
	// names of the work and of its run. Other processes can then join the hold, or adopt it: holders with the
	// same Hold are its members. A plain request with the same id queues like any other. At most MaxHold bytes,
	// printable. Defaults to "": the hold can be neither joined nor adopted.
	Hold string

	// Class is what metrics count the lock under, in place of its scope: the template that the scope was made from, such
	// as tenant/{id}/billing, or the scope itself where there are few. It travels in the znode, so that an observer can
	// add up the requests of all processes. At most MaxClass bytes, printable. Defaults to "": undeclared.
	Class string

	// Trace is a W3C traceparent. It travels in the znode, so that a contention can be followed across processes. At most
	// 1024 bytes. Defaults to "": none.
	Trace string
}

// How long the texts of an Identity may be, in bytes. They live in ZooKeeper's memory.
const (
	MaxMessage = 16 << 10
	MaxOwner   = 1 << 10
	MaxHold    = 200
	MaxClass   = 200

	maxTrace = 1 << 10
)

// Validate returns everything that is wrong with the identity of a job or of a requirement, joined (errors.Join). Each
// problem is a *RequestError.
func (i Identity) Validate() error {
	const tooLong = "takes %d bytes, more than %d; write a shorter one"
	return errors.Join(CheckHold(i.Hold), CheckClass(i.Class),
		checkLength("message", i.Message, MaxMessage, tooLong), checkLength("owner", i.Owner, MaxOwner, tooLong))
}

// ValidateRequest is Validate for what a request has become, with its Trace.
func (i Identity) ValidateRequest() error {
	return errors.Join(checkLength("owner", i.Owner, MaxOwner, overLimit),
		checkLength("message", i.Message, MaxMessage, overLimit),
		checkLength("traceparent", i.Trace, maxTrace, overLimit), CheckHold(i.Hold), CheckClass(i.Class))
}

// CheckHold returns a *RequestError for what cannot be the id of a hold, see Identity.Hold.
func CheckHold(id string) error { return checkName("hold", id, MaxHold) }

// CheckClass returns a *RequestError for what cannot be a class, see Identity.Class.
func CheckClass(class string) error { return checkName("class", class, MaxClass) }

const overLimit = "takes %d bytes; the limit is %d"

func checkLength(field, text string, limit int, tooLong string) error {
	if len(text) > limit {
		return &RequestError{Field: field, Reason: fmt.Sprintf(tooLong, len(text), limit)}
	}
	return nil
}

func checkName(field, name string, limit int) error {
	if len(name) <= limit && words.HasControl(name) {
		return &RequestError{
			Field:  field,
			Reason: fmt.Sprintf("%q contains a control character or invalid UTF-8; write printable characters", name),
		}
	}
	return checkLength(field, name, limit, overLimit)
}
