package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockkeeper/lockkeeper/doctor"
	"github.com/lockkeeper/lockkeeper/doctor/throughput"
)

const longCommand = "setAcl -R /lockkeeper/locks digest:lockkeeper:5JXmU2V2BdtGsYWQNCEEEamu/WM=:cdrwa,digest:ana:IPptXVIWHFkKYNbmkE7TcZx2n3A=:cdrwa"

// aReport has each result once, and something long.
func aReport() doctor.Report {
	return doctor.Report{Took: 1234 * time.Millisecond, Findings: []doctor.Finding{
		{Result: doctor.Problem, Check: "config", Subject: "lockkeeper.yaml:12:5", Found: `jobs[backup].locks[0].lease_timeout: "10" has no unit`, Do: "write for example 10m"},
		{Result: doctor.OK, Check: "server", Subject: "zk1.example.com:2181", Found: "gives sessions, leader, 12 connections"},
		{Result: doctor.Problem, Check: "server", Subject: "zk2.example.com:2181", Found: "does not accept connections: connect: connection refused", Do: "start the server, or check its address and what stands between it and this machine"},
		{Result: doctor.Warning, Check: "monitoring", Subject: "zk1.example.com:2181", Found: "does not execute mntr, conf, and no admin server of its answers at port 8080: only a part is known", Do: "write 4lw.commands.whitelist=srvr, mntr, conf, cons into its zoo.cfg, or admin.enableServer=true (then name the port with --admin-port); restart it"},
		{Result: doctor.Problem, Check: "quorum", Found: "2 of 3 voting servers are there: when one more fails, no lock is granted", Do: "start the missing ones"},
		{Result: doctor.OK, Check: "round_trips", Subject: "zk1.example.com:2181", Found: "sync 1.10 ms/4.30 ms, read 0.40 ms/0.90 ms, write 2.70 ms/9.80 ms (p50/p99)"},
		{Result: doctor.Warning, Check: "nodes", Subject: "/lockkeeper/strange\x1b[2J", Found: "does not belong here: nothing of this version's", Do: "find out who made it, and delete it (deleteall) if it is not needed; locks ignore it"},
		{Result: doctor.Problem, Check: "access", Subject: "/lockkeeper/locks", Found: "the ACLs of 2 nodes are not those of the configuration (digest:ana is missing): /lockkeeper/locks, /lockkeeper/locks/b0", Do: longCommand},
		{Result: doctor.Skipped, Check: "time_sync", Found: "whether the clock of this machine is kept right cannot be seen here"},
	}}
}

func TestReportOfTheDoctorFitsThePage(t *testing.T) {
	v := newDoctorView(aReport())
	require.Equal(t, []int{4, 2, 2, 1}, []int{v.Problems, v.Warnings, v.OK, v.Skipped})
	for width, file := range map[int]string{80: "doctor.80.golden", 160: "doctor.160.golden"} {
		text := drawn(width, func(pg page) { writeDoctor(pg, v) })
		require.Contains(t, text, "\n  "+longCommand+"\n", "a command can be copied in one piece")
		same(t, file, text)
	}
}

func TestTableOfTheBenchFitsThePage(t *testing.T) {
	step := func(name string, p50, p99 time.Duration) throughput.Step {
		return throughput.Step{Name: name, P50: p50, P99: p99}
	}
	v := newBenchView(throughput.Result{Took: 12 * time.Second, Rows: []throughput.Row{
		{Measure: throughput.Raw, Clients: 1, Cycles: 421, PerSecond: 421.3, Steps: []throughput.Step{step("create", 1200*time.Microsecond, 3*time.Millisecond), step("delete", 1100*time.Microsecond, 2900*time.Microsecond)}},
		{Measure: throughput.Own, Clients: 1, Cycles: 402, PerSecond: 402.1, OfRaw: 0.954, Steps: []throughput.Step{step("acquire", 1300*time.Microsecond, 3*time.Millisecond), step("release", 1100*time.Microsecond, 2900*time.Microsecond)}},
		{Measure: throughput.Handover, Clients: 32, Cycles: 800, PerSecond: 800, Steps: []throughput.Step{step("from release to grant", 1300*time.Microsecond, 30*time.Millisecond)}},
		{Measure: throughput.Preemption, Clients: 1, Cycles: 90, PerSecond: 90.4, Steps: []throughput.Step{step("to the holder's being told", 4*time.Millisecond, 30*time.Millisecond), step("from its release to the grant", 2*time.Millisecond, 9*time.Millisecond)}},
	}})
	require.Equal(t, "SSD SATA", *v.Resembles)
	for width, file := range map[int]string{80: "bench.80.golden", 160: "bench.160.golden"} {
		same(t, file, drawn(width, func(pg page) { writeBench(pg, v) }))
	}
}
