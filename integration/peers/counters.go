package peers

import (
	"context"
	"fmt"
	"strconv"
	"strings"
)

// Counters are what the servers of a ZooKeeper have counted so far, all together.
type Counters struct {
	Requests float64 // packets from clients, pings included
	Writes   float64 // transactions that the leader has ordered
	Reads    float64 // of data and of lists of children
	Bytes    float64 // in answers and events
}

func (c Counters) minus(d Counters) Counters {
	return Counters{c.Requests - d.Requests, c.Writes - d.Writes, c.Reads - d.Reads, c.Bytes - d.Bytes}
}

func (c Counters) each(n float64) Counters {
	if n == 0 {
		return Counters{}
	}
	return Counters{c.Requests / n, c.Writes / n, c.Reads / n, c.Bytes / n}
}

// count asks ZooKeeper; a family that is another one has counted nothing.
func (p *place) count(ctx context.Context, family Family) (Counters, error) {
	var sum Counters
	if family != ZooKeeper {
		return sum, nil
	}
	for _, server := range p.zookeeper {
		figures, err := server.Monitor(ctx)
		if err != nil {
			return sum, err
		}
		text, err := server.Command(ctx, "srvr")
		if err != nil {
			return sum, err
		}
		zxid, err := parseZxid(text)
		if err != nil {
			return sum, err
		}
		c := parseCounters(figures)
		sum.Requests += c.Requests
		sum.Reads += c.Reads
		sum.Bytes += c.Bytes
		sum.Writes = max(sum.Writes, zxid) // followers are a step behind
	}
	return sum, nil
}

// parseZxid reads how many transactions there were in this epoch, from an answer to srvr.
func parseZxid(text string) (float64, error) {
	for line := range strings.Lines(text) {
		if digits, ok := strings.CutPrefix(strings.TrimSpace(line), "Zxid: 0x"); ok {
			zxid, err := strconv.ParseUint(digits, 16, 64)
			if err != nil {
				return 0, fmt.Errorf("cannot read %q: %w", line, err)
			}
			return float64(uint32(zxid)), nil
		}
	}
	return 0, fmt.Errorf("no zxid in the answer %q", text)
}

// parseCounters reads an answer to mntr. Reads are counted by the first part of the path.
func parseCounters(figures map[string]string) Counters {
	number := func(text string) float64 {
		n, _ := strconv.ParseFloat(text, 64) // an older server does not count everything
		return n
	}
	c := Counters{Requests: number(figures["zk_packets_received"]), Bytes: number(figures["zk_response_bytes"])}
	for name, text := range figures {
		if strings.HasPrefix(name, "zk_cnt_") && strings.HasSuffix(name, "_read_per_namespace") {
			c.Reads += number(text)
		}
	}
	return c
}

// ephemerals returns how many ephemeral nodes there are.
func (p *place) ephemerals(ctx context.Context) (int, error) {
	return p.gauge(ctx, "zk_ephemerals_count")
}

// watches returns how many watches are set.
func (p *place) watches(ctx context.Context) (int, error) { return p.gauge(ctx, "zk_watch_count") }

// gauge returns a figure of the first server.
func (p *place) gauge(ctx context.Context, name string) (int, error) {
	figures, err := p.zookeeper[0].Monitor(ctx)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(figures[name])
}
