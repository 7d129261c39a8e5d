package znode

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/lockkeeper/lockkeeper/priority"
)

func TestScopeIsOneNode(t *testing.T) {
	for scope, want := range map[string]string{
		"orders":                          "orders",
		"cluster/orders/resource/users":   "cluster%2Forders%2Fresource%2Fusers",
		"100%":                            "100%25",
		".":                               "%2E",
		"..":                              "%2E.",
		"zookeeper":                       "%7Aookeeper",
		"Größe/東京":                        "Größe%2F東京",
		strings.Repeat("x", maxScope):     strings.Repeat("x", maxScope),
		strings.Repeat("x/", 49) + "abcd": strings.Repeat("x%2F", 49) + "abcd",
		"blank inside is fine, and +-_=:": "blank inside is fine, and +-_=:",
	} {
		got, err := EscapeScope(scope)
		require.NoError(t, err, scope)
		require.Equal(t, want, got)
		back, ok := UnescapeScope(got)
		require.True(t, ok, got)
		require.Equal(t, scope, back)
	}
}

func TestScopeThatCannotBeStoredIsRefused(t *testing.T) {
	for scope, says := range map[string]string{
		"":                              "is empty",
		"a\nb":                          "control character",
		"a\x00":                         "control character",
		"a\u2028b":                      "control character",
		"a💥b":                           "control character",
		"bad\xffutf8":                   "control character",
		strings.Repeat("x", maxScope+1): "the limit is 200",
		strings.Repeat("x/", 50) + "x":  "takes 201 bytes (a slash counts as 3)",
	} {
		_, err := EscapeScope(scope)
		var bad *priority.RequestError
		require.ErrorAs(t, err, &bad)
		require.Equal(t, "scope", bad.Field)
		require.ErrorContains(t, err, says)
	}
}

func TestScopeThatIsTakenForAnotherIsRefused(t *testing.T) {
	for scope, says := range map[string]string{
		"a//b":          `"a//b" has an empty part after "a"; write "a/b"`,
		"a/b//":         `"a/b//" ends with a slash; write "a/b"`,
		"/a":            `"/a" begins with a slash; write "a"`,
		"a/":            `"a/" ends with a slash; write "a"`,
		"/":             `"/" begins with a slash; write a path such as cluster/orders/resource/users`,
		"//":            `"//" begins with a slash; write a path such as cluster/orders/resource/users`,
		" ":             `" " is nothing but white space; write a path such as cluster/orders/resource/users`,
		"\u00a0\u3000":  `is nothing but white space; write a path`,
		" a":            `" a" has white space at its ends; write "a"`,
		"a ":            `"a " has white space at its ends; write "a"`,
		"a\u2003":       `has white space at its ends; write "a"`,
		"a /b":          `"a /b" has white space at the ends of its part "a "; write "a/b"`,
		"x y/ b":        `"x y/ b" has white space at the ends of its part " b"; write "x y/b"`,
		"a/ /b":         `"a/ /b" has white space at the ends of its part " "; write "a/b"`,
		" / a//b/ c / ": `" / a//b/ c / " has an empty part after " / a"; write "a/b/c"`,
	} {
		_, err := EscapeScope(scope)
		var bad *priority.RequestError
		require.ErrorAs(t, err, &bad, "%q", scope)
		require.Equal(t, "scope", bad.Field)
		require.Contains(t, bad.Reason, says)
	}
}

func TestWhatIsWrittenInsteadOfARefusedScopeIsAccepted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scope := rapid.StringMatching(`[ab /\x{a0}]{1,8}`).Draw(t, "scope")
		_, err := EscapeScope(scope)
		meant := tidy(scope)
		require.Equal(t, meant == scope, err == nil, "%q", scope)
		if meant != "" {
			_, err = EscapeScope(meant)
			require.NoError(t, err)
		}
	})
}

func TestForeignLockNodesAreNotTakenForScopes(t *testing.T) {
	for _, name := range []string{"a%", "a%2", "a%zz", "a%61", "%2e", ".", "a%2F%2Fb", "%20", " a", "a%2F", "%2Fa", "%2F", " ", "a %2Fb"} {
		_, ok := UnescapeScope(name)
		require.False(t, ok, name)
	}
}

func TestSequenceIsReadOnlyAsZooKeeperWritesIt(t *testing.T) {
	for _, n := range []int32{0, 1, -1, 999_999_999, 1_000_000_000, math.MaxInt32, -999_999_999, -1_000_000_000, math.MinInt32} {
		got, ok := ParseSequence(fmt.Sprintf("%010d", n))
		require.True(t, ok, n)
		require.Equal(t, n, got)
	}
	for _, other := range []string{"", "-", "7", "000000007", "00000000007", "+000000007", "-000000000", "-0000000007", "2147483648", "-2147483649", "000000000a", " 000000007"} {
		_, ok := ParseSequence(other)
		require.False(t, ok, other)
	}
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.StringMatching(`[-+0][0-9]{8,10}|-?0{9,11}`).Draw(t, "digits")
		if n, ok := ParseSequence(digits); ok {
			require.Equal(t, digits, fmt.Sprintf("%010d", n))
		}
	})
}
