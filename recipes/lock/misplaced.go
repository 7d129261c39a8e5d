package lock

// Why nodes do not belong where they are, by their names.
const (
	notAScope = "its name is no scope"
)

func inWrongBucket(right string) string { return "the lock of this scope is " + right }
