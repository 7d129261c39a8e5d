// Command next is the newest Temporal server that can be built, with all that it
// can do switched on: standalone activities, cancellation that is pushed. It
// takes the arguments of `temporal server start-dev` that the tests use, and
// keeps its data in memory. Set TEMPORAL_CLI to it; see `make test-temporal-next`.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/temporal"
	"go.temporal.io/server/temporaltest"
	"google.golang.org/protobuf/types/known/durationpb"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 || args[0] != "server" || args[1] != "start-dev" {
		return errors.New("usage: next server start-dev --ip 127.0.0.1 --port N")
	}
	dynamic := dynamicconfig.StaticClient{
		dynamicconfig.MakeKey("frontend.WorkerCommandsEnabled"):           true,
		dynamicconfig.MakeKey("system.enableCancelActivityWorkerCommand"): true,
	}
	flags := flag.NewFlagSet("next", flag.ContinueOnError)
	ip, port := flags.String("ip", "127.0.0.1", ""), flags.String("port", "7233", "")
	for _, ignored := range []string{"headless", "disable-config-file", "disable-config-env"} {
		flags.Bool(ignored, false, "")
	}
	if err := flags.Parse(args[2:]); err != nil {
		return err
	}

	server := temporaltest.NewServer(temporaltest.WithBaseServerOptions(temporal.WithDynamicConfigClient(dynamic)))
	_, err := server.GetDefaultClient().WorkflowService().RegisterNamespace(context.Background(),
		&workflowservice.RegisterNamespaceRequest{
			Namespace: "default", WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
		})
	if err != nil {
		return err
	}
	// The server has chosen its port: another one is served for it.
	listener, err := net.Listen("tcp", net.JoinHostPort(*ip, *port))
	if err != nil {
		return err
	}
	fmt.Printf("Server:  %s\nMetrics: none\n", listener.Addr())
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		go forward(conn, server.GetFrontendHostPort())
	}
}

func forward(from net.Conn, address string) {
	defer from.Close()
	to, err := net.Dial("tcp", address)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer to.Close()
	go func() { _, _ = io.Copy(to, from); _ = to.Close() }()
	_, _ = io.Copy(from, to)
}
