// Package zkproxy tests zktest.Proxy in front of a real ZooKeeper server: every
// fault does to a real client what it says.
package zkproxy
