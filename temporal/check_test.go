package temporal_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"

	"github.com/lockkeeper/lockkeeper/temporal"
)

// namespaces is a server that knows one namespace, and nothing else.
type namespaces struct {
	workflowservice.UnimplementedWorkflowServiceServer
}

func (namespaces) GetSystemInfo(context.Context, *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	return &workflowservice.GetSystemInfoResponse{}, nil
}

func (namespaces) DescribeNamespace(_ context.Context, r *workflowservice.DescribeNamespaceRequest) (*workflowservice.DescribeNamespaceResponse, error) {
	switch r.Namespace {
	case "default":
		return &workflowservice.DescribeNamespaceResponse{}, nil
	case "secret":
		return nil, serviceerror.ToStatus(serviceerror.NewPermissionDenied("not you", "")).Err()
	}
	return nil, serviceerror.ToStatus(serviceerror.NewNamespaceNotFound(r.Namespace)).Err()
}

func TestCheckSaysWhatIsWrong(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := grpc.NewServer()
	workflowservice.RegisterWorkflowServiceServer(server, namespaces{})
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	defer func() {
		server.Stop()
		<-served
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	address := l.Addr().String()
	require.NoError(t, temporal.Check(ctx, temporal.Options{Address: address}))
	require.ErrorContains(t, temporal.Check(ctx, temporal.Options{Address: address, Namespace: "orders"}), "the server has no namespace orders")
	require.ErrorContains(t, temporal.Check(ctx, temporal.Options{Address: address, Namespace: "secret"}), "refuses access to the namespace secret")
	require.ErrorContains(t, temporal.Check(ctx, temporal.Options{Address: "nowhere"}), "no host and port")
}

func TestCheckOfASilentServerEndsInTime(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	require.ErrorContains(t, temporal.Check(ctx, temporal.Options{Address: "127.0.0.1:1"}), "no answer")
}
