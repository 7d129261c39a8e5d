// Package netfault is a TCP proxy on loopback that stands between a client and one server and breaks the
// network between them on demand.
//
// The one idea: a Proxy is one link, with one state that can be switched at any time and holds for the
// connections that exist as well as for those to come:
//
//	proxy := netfault.New(t, server.Addr())
//	client := connect(t, proxy.Addr())
//	proxy.Blackhole()      // packets vanish; both ends believe they are connected
//	…
//	proxy.Pass()           // the network is back
//
// The states differ in what the two ends can know. Cut: both notice at once. HalfOpen: the server notices, the client
// does not. Blackhole: neither notices, what is sent is lost. Stall: neither notices, what is sent arrives later, as
// after a network partition that TCP survived. Jitter: a slow network. Refuse: existing connections stay, new
// ones are refused.
package netfault
