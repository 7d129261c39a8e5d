package recipes

// Why nodes do not belong where they are, by their names.
const (
	notAGroup  = "its name is no group's"
	notAMember = "its name is no participant's"
	notAScope  = "its name is no scope"
	noSessions = "it is not ephemeral: no session keeps it"
)

func inWrongBucket(right string) string { return "the lock of this scope is " + right }
