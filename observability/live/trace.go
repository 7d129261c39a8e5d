package live

import "strings"

// TraceID returns the ID of the trace in a W3C traceparent, 32 hex digits; "" if it
// is none. Any client may have written it into a node.
func TraceID(parent string) string {
	parts := strings.Split(parent, "-")
	if len(parts) < 4 || len(parts) > 4 && parts[0] == "00" { // later versions may have more
		return ""
	}
	version, id, span, flags := parts[0], parts[1], parts[2], parts[3]
	switch {
	case !isHex(version, 2), version == "ff":
		return ""
	case !isHex(id, 32), strings.Trim(id, "0") == "":
		return ""
	case !isHex(span, 16), strings.Trim(span, "0") == "":
		return ""
	case !isHex(flags, 2):
		return ""
	}
	return id
}

// isHex reports whether s is that many hex digits, as traceparents have them.
func isHex(s string, digits int) bool {
	return len(s) == digits && strings.Trim(s, "0123456789abcdef") == ""
}
