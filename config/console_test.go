package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/bcrypt"

	"github.com/lockkeeper/lockkeeper/observability/console"
)

// consoleUsers writes a file of users.
func consoleUsers(t *testing.T) string {
	t.Helper()
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	require.NoError(t, err)
	name := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(name, []byte("ana:"+string(hash)+"\n"), 0o600))
	return name
}

func TestConsoleIsShownWhereTheFileSaysSoAndToWhom(t *testing.T) {
	users := consoleUsers(t)
	proxy := &console.Proxy{Header: "X-User", Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.5/32"), netip.MustParsePrefix("10.1.0.0/24")}}
	for text, want := range map[string]Console{
		"":                                      {},
		"console: {listen: '127.0.0.1:9480'}\n": {Listen: "127.0.0.1:9480"},
		"console: {listen: '[::1]:0', actions: true, users_file: " + users + "}\n":                                                   {Listen: "[::1]:0", Actions: true, UsersFile: users},
		"console: {listen: 'localhost:1', users_file: " + users + ", sign_in: to_see}\n":                                             {Listen: "localhost:1", UsersFile: users, Private: true},
		"console: {listen: ':9480', actions: true, proxy: {header: X-User, trusted: [10.0.0.5, 10.1.0.7/24]}}\n":                     {Listen: ":9480", Actions: true, Proxy: proxy, Private: true},
		"console: {listen: ':9480', sign_in: to_act, proxy: {header: X-User, trusted: [10.0.0.5, 10.1.0.0/24]}, hosts: [locks.x]}\n": {Listen: ":9480", Proxy: proxy, Hosts: []string{"locks.x"}},
		"console: {listen: ':1', proxy: {header: X-User, trusted: [10.0.0.5, 10.1.0.0/24]}, links: {trace: 'https://j/{trace_id}'}}\n": {
			Listen: ":1", Proxy: proxy, Private: true, Links: console.Links{Trace: "https://j/{trace_id}"},
		},
	} {
		require.Equal(t, want, mustParse(t, file(text)).Console, text)
	}
}

func TestConsoleThatWouldBeOpenOrUselessIsRefusedWhereItStands(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                                     "2:10 console: listen is missing; write it like {listen: \"127.0.0.1:9480\"}",
		"{listen: 9480}":                         "2:19 console.listen: \"9480\" is not an address: missing port in address; write host:port, for example \"127.0.0.1:9480\"",
		"{listen: ':9480'}":                      "2:19 console.listen: \":9480\" can be reached from other machines, which could listen in; write \"127.0.0.1:9480\", or give the console a certificate (tls), or a proxy in front of it (proxy)",
		"{listen: '127.0.0.1:1', actions: true}": "2:43 console.actions: no one can sign in; name the people in users_file, or a proxy that says who they are",
		"{listen: '127.0.0.1:1', sign_in: to_see}":                               "2:43 console.sign_in: no one can sign in; name the people in users_file, or a proxy that says who they are",
		"{listen: '127.0.0.1:1', proxy: {header: X, trusted: [0.0.0.0/0]}}":      "2:63 console.proxy.trusted[0]: \"0.0.0.0/0\" is every address: any client could then claim any name; write the address of the proxy",
		"{listen: '127.0.0.1:1', proxy: {header: 'X Y', trusted: ['::1']}}":      "2:50 console.proxy.header: \"X Y\" is no name of a header; write one of letters, digits and -, for example X-Forwarded-User",
		"{listen: '127.0.0.1:1', proxy: {header: X, trusted: [a]}}":              "2:63 console.proxy.trusted[0]: \"a\" is neither an address nor a network; write addresses or networks, for example [10.0.0.5, 10.1.0.0/24]",
		"{listen: '127.0.0.1:1', proxy: {header: X}}":                            "2:41 console.proxy: trusted is missing; write it like {header: X-Forwarded-User, trusted: [10.0.0.5]}",
		"{listen: '127.0.0.1:1', hosts: ['a:1']}":                                "2:42 console.hosts[0]: \"a:1\" is no name of a host; write names without a port, for example [locks.example.org]",
		"{listen: '127.0.0.1:1', links: {trace: 'https://j/'}}":                  "2:49 console.links.trace: \"https://j/\" has no {trace_id}; write it where the ID belongs",
		"{listen: '127.0.0.1:1', links: {temporal: 'javascript:{workflow_id}'}}": "2:52 console.links.temporal: \"javascript:{workflow_id}\" is no address; write it like https://host/path/{workflow_id}",
		"{listen: '127.0.0.1:1', tls: {cert_file: x}}":                           "2:51 console.tls.cert_file: key_file is missing beside it; name the file with the private key as well",
		"{listen: '127.0.0.1:1', users: x}":                                      "2:34 console: unknown field \"users\"; did you mean \"users_file\"?",
	} {
		_, problems, _ := parse(t, file("console: "+text+"\n"))
		require.Equal(t, []string{want}, problems, text)
	}
}

func TestFileOfUsersIsRefusedWithAllThatIsWrongWithIt(t *testing.T) {
	name := filepath.Join(t.TempDir(), "users")
	require.NoError(t, os.WriteFile(name, []byte("ana:plain\nben\n"), 0o600))
	_, problems, _ := parse(t, file("console: {listen: '127.0.0.1:1', actions: true, users_file: "+name+"}\n"))
	require.Len(t, problems, 2, "%q", problems)
	require.Contains(t, strings.Join(problems, "\n"), `users:1: the hash of "ana" is not one of bcrypt`)
	require.Contains(t, strings.Join(problems, "\n"), "users:2: is not name:hash")
	require.NotContains(t, strings.Join(problems, "\n"), "plain", "no word of what may be a password")
	require.NotContains(t, strings.Join(problems, "\n"), " -c ", "htpasswd -c removes all other users of the file")
	require.Contains(t, problems[0], "htpasswd -B "+name+" NAME")

	_, problems, _ = parse(t, file("console: {listen: '127.0.0.1:1', users_file: /nowhere/users}\n"))
	require.Len(t, problems, 1)
	require.Contains(t, problems[0], "cannot be read")
}
