package tree

import (
	"crypto/sha1" //nolint:gosec // what ZooKeeper's digest scheme is made of
	"encoding/base64"
	"slices"
	"strconv"
	"strings"

	"github.com/lockkeeper/lockkeeper/zkwire"
)

// OpenACL lets every client do everything.
var OpenACL = []zkwire.ACL{{Perms: zkwire.PermAll, ID: zkwire.ID{Scheme: "world", Name: "anyone"}}}

var readACL = []zkwire.ACL{{Perms: zkwire.PermRead, ID: zkwire.ID{Scheme: "world", Name: "anyone"}}}

// Allowed tells whether one of ids has one of perms.
func Allowed(acl []zkwire.ACL, perms int32, ids []zkwire.ID) bool {
	if len(acl) == 0 {
		return true
	}
	for i := range acl {
		a := &acl[i]
		if a.Perms&perms == 0 {
			continue
		}
		if a.ID.Scheme == "world" && a.ID.Name == "anyone" {
			return true
		}
		for _, id := range ids {
			if id.Scheme == a.ID.Scheme && matches(id, a.ID.Name) {
				return true
			}
		}
	}
	return false
}

func matches(id zkwire.ID, expression string) bool {
	switch id.Scheme {
	case "digest":
		return id.Name == expression
	case "ip":
		return matchesIP(id.Name, expression)
	}
	return false
}

func matchesIP(address, expression string) bool {
	network, bits, ok := parseIP(expression)
	host, _, isIP := parseIP(address)
	return ok && isIP && host>>(32-bits) == network>>(32-bits)
}

// parseIP reads an address of version 4, the only one that 3.8 knows here, with
// or without the number of its bits that count.
func parseIP(expression string) (address uint64, bits int, ok bool) {
	dotted, prefix, cut := strings.Cut(expression, "/")
	parts := javaSplit(dotted, ".")
	if len(parts) != 4 {
		return 0, 0, false
	}
	for _, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 || n > 255 {
			return 0, 0, false
		}
		address = address<<8 | uint64(n)
	}
	bits = 32
	if cut {
		n, err := strconv.Atoi(prefix)
		if err != nil || n < 0 || n > 32 {
			return 0, 0, false
		}
		bits = n
	}
	return address, bits, true
}

// javaSplit splits as Java does: empty parts at the end do not count.
func javaSplit(s, separator string) []string {
	parts := strings.Split(s, separator)
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return parts
}

// fix checks an ACL that a client sent and puts its ids in the place of "auth".
func fix(acl []zkwire.ACL, ids []zkwire.ID) ([]zkwire.ACL, zkwire.Code) {
	acl, code := distinct(acl)
	if code != zkwire.OK {
		return nil, code
	}
	var fixed []zkwire.ACL
	for _, a := range acl {
		if a.NullScheme {
			return nil, zkwire.InvalidACL
		}
		var valid bool
		switch a.ID.Scheme {
		case "world":
			valid = a.ID.Name == "anyone"
		case "digest":
			valid = validDigest(a.ID.Name)
		case "ip":
			_, _, valid = parseIP(a.ID.Name)
		case "auth":
			mine := own(a.Perms, ids)
			if len(mine) == 0 {
				return nil, zkwire.InvalidACL
			}
			fixed = append(fixed, mine...)
			continue
		default:
			return nil, zkwire.InvalidACL
		}
		if a.NullName {
			return nil, zkwire.MarshallingError // ZooKeeper trips over it
		}
		if !valid {
			return nil, zkwire.InvalidACL
		}
		fixed = append(fixed, a)
	}
	if len(fixed) == 0 {
		return nil, zkwire.InvalidACL
	}
	return fixed, zkwire.OK
}

// distinct leaves out what was said before. ZooKeeper trips over a null in what
// it has to compare.
func distinct(acl []zkwire.ACL) ([]zkwire.ACL, zkwire.Code) {
	var kept []zkwire.ACL
	for _, a := range acl {
		again := false
		for _, k := range kept {
			if a.Perms != k.Perms {
				continue
			}
			if a.NullScheme {
				return nil, zkwire.MarshallingError
			}
			if k.NullScheme || a.ID.Scheme != k.ID.Scheme {
				continue
			}
			if a.NullName {
				return nil, zkwire.MarshallingError
			}
			if again = !k.NullName && a.ID.Name == k.ID.Name; again {
				break
			}
		}
		if !again {
			kept = append(kept, a)
		}
	}
	return kept, zkwire.OK
}

// own lets the client do something that has shown who it is; an address proves
// nothing.
func own(perms int32, ids []zkwire.ID) []zkwire.ACL {
	var acl []zkwire.ACL
	for _, id := range ids {
		if id.Scheme == "digest" {
			acl = append(acl, zkwire.ACL{Perms: perms, ID: id})
		}
	}
	return acl
}

func validDigest(name string) bool { return len(javaSplit(name, ":")) == 2 }

// Digest is the identity of a client that knows "user:password".
func Digest(secret string) zkwire.ID {
	user, _, _ := strings.Cut(secret, ":")
	sum := sha1.Sum([]byte(secret)) //nolint:gosec // see the import
	return zkwire.ID{Scheme: "digest", Name: user + ":" + base64.StdEncoding.EncodeToString(sum[:])}
}

// hide replaces the hashes of digests.
func hide(acl []zkwire.ACL) []zkwire.ACL {
	hidden := slices.Clone(acl)
	for i := range hidden {
		if id := &hidden[i].ID; id.Scheme == "digest" {
			if user, _, found := strings.Cut(id.Name, ":"); found {
				id.Name = user + ":x"
			}
		}
	}
	return hidden
}
