// Package zkwire is ZooKeeper's client protocol as bytes: jute, the encoding of its numbers, strings and
// lists, and the requests and replies made of them. It knows no state: what a request means is the server's
// business. The client's raw requests and the embedded server share it.
//
// A frame is a length of four bytes, which is not part of what this package
// reads, and a body. The body of a client's first frame is a ConnectRequest,
// that of every other one a Request; the server answers with a
// ConnectResponse and then with replies, which begin with a ReplyHeader.
// Reserved xids tell notifications and pings from answers.
package zkwire
