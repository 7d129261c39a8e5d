package override

// FieldError says what is wrong with one field of an Override.
type FieldError struct {
	Field  string // as in a file, for example "match.scope" or "waiting_timeout"
	Reason string // what is wrong, and what to write instead
}

func (e *FieldError) Error() string { return "override: " + e.Field + ": " + e.Reason }
