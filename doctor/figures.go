package doctor

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// A figureMap has what a server tells of itself, by the names that mntr has for
// it, without its "zk_". The four-letter words and the admin server of all
// versions are brought to these names.
type figureMap map[string]string

// number returns a figure; false when the server did not tell it.
func (f figureMap) number(name string) (float64, bool) {
	n, err := strconv.ParseFloat(f[name], 64)
	return n, err == nil
}

func (f figureMap) merge(more figureMap) {
	for name, value := range more {
		if f[name] == "" {
			f[name] = value
		}
	}
}

// notServing is how a server without a quorum answers.
const notServing = "not currently serving requests"

// closedWord is how a server answers a word that is not on its list.
const closedWord = "is not executed because it is not in the whitelist"

// parseServer reads the answer to srvr:
//
//	Zookeeper version: 3.8.0-5a02a05, built on 2022-02-25 08:49 UTC
//	Latency min/avg/max: 0/0.5/12
//	…
//	Mode: follower
//	Node count: 5
func parseServer(text string) figureMap {
	f := figureMap{}
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if !ok {
			continue
		}
		switch key {
		case "Zookeeper version":
			f["version"] = value
		case "Latency min/avg/max":
			parts := strings.Split(value, "/")
			if len(parts) == 3 {
				f["min_latency"], f["avg_latency"], f["max_latency"] = parts[0], parts[1], parts[2]
			}
		case "Connections":
			f["num_alive_connections"] = value
		case "Outstanding":
			f["outstanding_requests"] = value
		case "Mode":
			f["server_state"] = value
		case "Node count":
			f["znode_count"] = value
		}
	}
	return f
}

// parseMonitor reads the answer to mntr: one figure a line, a tab between its
// name and its value.
func parseMonitor(text string) figureMap {
	f := figureMap{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			f[strings.TrimPrefix(name, "zk_")] = value
		}
	}
	return f
}

// parseConfiguration reads the answer to conf: name=value lines, those of an
// ensemble's members after the server's own.
func parseConfiguration(text string) figureMap {
	names := map[string]string{
		"tickTime": "tick_time", "minSessionTimeout": "min_session_timeout", "maxSessionTimeout": "max_session_timeout",
		"serverId": "server_id", "clientPort": "client_port", "secureClientPort": "secure_client_port",
	}
	f := figureMap{}
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if known := names[name]; ok && known != "" {
			f[known] = value
		}
	}
	return f
}

// parseAdmin reads an answer of the admin server: one JSON object. It reports
// false for what no admin server of ZooKeeper would say.
func parseAdmin(text []byte) (figureMap, bool) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var fields map[string]any
	if d.Decode(&fields) != nil || fields["command"] == nil {
		return nil, false
	}
	f := figureMap{}
	for name, value := range fields {
		switch v := value.(type) {
		case string:
			f[name] = v
		case json.Number:
			f[name] = v.String()
		case bool:
			f[name] = strconv.FormatBool(v)
		case map[string]any:
			if name == "server_stats" { // what srvr says
				f.merge(adminStats(v))
			}
		}
	}
	return f, true
}

func adminStats(v map[string]any) figureMap {
	f := figureMap{}
	for name, value := range v {
		switch value := value.(type) {
		case string:
			f[name] = value
		case json.Number:
			f[name] = value.String()
		}
	}
	return f
}

// parseEstablished finds when the server accepted the connection of a session,
// by its own clock, in milliseconds, in the answer to cons:
//
//	/127.0.0.1:51710[1](queued=0,recved=3,sent=3,sid=0x100000000000001,lop=PING,est=1700000000000,to=4000,…)
func parseEstablished(text string, session int64) (int64, bool) {
	name := "sid=0x" + strconv.FormatUint(uint64(session), 16) + ","
	for line := range strings.Lines(text) {
		if !strings.Contains(line, name) {
			continue
		}
		_, rest, _ := strings.Cut(line, "est=")
		digits, _, _ := strings.Cut(rest, ",")
		at, err := strconv.ParseInt(digits, 10, 64)
		return at, err == nil
	}
	return 0, false
}
