// Command http-service runs on several machines behind a load balancer, and
// works on each order on one of them at a time:
//
//	curl -X PUT http://localhost:8080/orders/7    # 204, or 423 Locked with Retry-After
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/lockkeeper/lockkeeper/adapters/httpguard"
	"github.com/lockkeeper/lockkeeper/lockguard"
	"github.com/lockkeeper/lockkeeper/priority"
	"github.com/lockkeeper/lockkeeper/recipes/lock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Getenv("LOCKKEEPER_ZK"))
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "http-service:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, zk string) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "localhost:8080")
	if err != nil {
		return err
	}
	return serve(ctx, zk, listener, ship)
}

// serve answers requests until ctx ends.
func serve(ctx context.Context, zk string, listener net.Listener, put http.HandlerFunc) (err error) {
	servers, chroot, err := lock.ParseServers(zk)
	if err != nil {
		return err
	}
	client, err := lock.NewClient(lock.Config{Servers: servers, Chroot: chroot})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		err = errors.Join(err, client.Close(closing))
	}()
	guard, err := lockguard.New(client)
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("PUT /orders/{id}", httpguard.HandlerFor(guard, func(r *http.Request) ([]lockguard.Requirement, error) {
		return []lockguard.Requirement{{
			Scope: "shop/orders/" + r.PathValue("id"),
			Terms: priority.Terms{AcquireTimeout: new(2 * time.Second)}, // a short queue is better than a refusal
		}}, nil
	}, put, httpguard.WithRetryAfter(5*time.Second)))

	server := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	closed := make(chan error, 1)
	go func() {
		<-ctx.Done()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		closed <- server.Shutdown(closing)
	}()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-closed
}

// ship works on the order whose lock the request has.
func ship(w http.ResponseWriter, r *http.Request) {
	hold, _ := lockguard.FromContext(r.Context())
	w.Header().Set("X-Token", fmt.Sprint(hold.Token())) // what it writes to refuses smaller ones
	select {
	case <-time.After(3 * time.Second): // it is a large order
		w.WriteHeader(http.StatusNoContent)
	case <-r.Context().Done(): // preempted or lost: 503 for the client, if it still listens
	}
}
