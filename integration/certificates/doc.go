// Package certificates tests clients that ZooKeeper knows by their TLS
// certificates, on a real server: the embedded one knows nobody by one.
package certificates
