// Package certificates tests clients that ZooKeeper knows by their TLS
// certificates, on a real server: the embedded one does not support them.
package certificates
