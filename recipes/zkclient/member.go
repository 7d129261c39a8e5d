package zkclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"
)

// An EnsembleMember is a server as the ensemble's own configuration names it.
type EnsembleMember struct {
	ID       int
	Host     string // by which the other servers find it
	Observer bool   // it has no vote
	Client   string // host:port for clients; "" when the configuration does not say
}

// Ensemble returns the servers that vote or observe, by their numbers, as the
// server that this client is connected to has them in its node
// /zookeeper/config. A server on its own has none: the list is empty.
func (c *Client) Ensemble(ctx context.Context) ([]EnsembleMember, error) {
	data, _, err := c.Get(ctx, "/zookeeper/config")
	switch {
	case errors.Is(err, zk.ErrNoNode): // older than 3.5
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("the servers of the ensemble are not known: %w", err)
	}
	return parseEnsemble(string(data)), nil
}

// parseEnsemble reads lines such as
//
//	server.1=zk1:2888:3888:participant;0.0.0.0:2181
//	version=0
//
// and leaves out what it does not know.
func parseEnsemble(text string) []EnsembleMember {
	var members []EnsembleMember
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		number, ok := strings.CutPrefix(key, "server.")
		id, err := strconv.Atoi(number)
		if !ok || err != nil {
			continue
		}
		peers, client, _ := strings.Cut(value, ";")
		peers, _, _ = strings.Cut(peers, "|") // several addresses for one server: the first will do
		m := EnsembleMember{ID: id, Host: hostOf(peers), Observer: strings.HasSuffix(peers, ":observer"), Client: client}
		if client != "" && !strings.Contains(client, ":") {
			m.Client = "0.0.0.0:" + client
		}
		members = append(members, m)
	}
	slices.SortFunc(members, func(a, b EnsembleMember) int { return a.ID - b.ID })
	return members
}

func hostOf(peers string) string {
	if rest, ok := strings.CutPrefix(peers, "["); ok {
		host, _, _ := strings.Cut(rest, "]")
		return host
	}
	host, _, _ := strings.Cut(peers, ":")
	return host
}
