package httpguard

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// A response knows whether its status is on the way to the client.
type response struct {
	http.ResponseWriter
	started bool
}

// WriteHeader starts the response, unless the status is an informational one.
func (r *response) WriteHeader(status int) {
	r.started = r.started || status >= http.StatusOK || status == http.StatusSwitchingProtocols
	r.ResponseWriter.WriteHeader(status)
}

// Write starts the response.
func (r *response) Write(p []byte) (int, error) {
	r.started = true
	return r.ResponseWriter.Write(p)
}

// ReadFrom starts the response. Files are sent by the kernel if that can be.
func (r *response) ReadFrom(from io.Reader) (int64, error) {
	r.started = true
	return io.Copy(r.ResponseWriter, from)
}

// Flush starts the response.
func (r *response) Flush() {
	r.started = true
	_ = http.NewResponseController(r.ResponseWriter).Flush()
}

// Hijack hands the connection over: there is no response any more.
func (r *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	connection, buffered, err := http.NewResponseController(r.ResponseWriter).Hijack()
	r.started = r.started || err == nil
	return connection, buffered, err
}

// Unwrap is for http.ResponseController.
func (r *response) Unwrap() http.ResponseWriter { return r.ResponseWriter }

var (
	_ http.Flusher  = (*response)(nil)
	_ http.Hijacker = (*response)(nil)
	_ io.ReaderFrom = (*response)(nil)
)
