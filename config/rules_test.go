package config

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRules(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want string // problems, one a line; none when empty
	}{
		// The file
		"version is missing":        {"jobs: {a: {schedule: '@daily', run: [x]}}", "1:1 version is missing; write version: 1"},
		"version is another one":    {strings.Replace(job(""), "1", "2", 1), "1:10 version: this version of lockkeeper cannot read version 2; write version: 1"},
		"version is a text":         {strings.Replace(job(""), "1", `"1"`, 1), `1:10 version: "1" is not a whole number; write 1 without quotes`},
		"jobs are missing":          {"version: 1", `1:1 jobs is missing; write it like backup: {schedule: "0 2 * * *", run: [/usr/bin/backup], locks: [{scope: cluster/orders}]}`},
		"jobs are empty":            {"version: 1\njobs: {}", `2:7 jobs: there are no jobs; write it like backup: {schedule: "0 2 * * *", run: [/usr/bin/backup], locks: [{scope: cluster/orders}]}`},
		"jobs have no value":        {"version: 1\njobs:", `2:6 jobs: has no value; write it like backup: {schedule: "0 2 * * *", run: [/usr/bin/backup], locks: [{scope: cluster/orders}]}`},
		"jobs are a list":           {"version: 1\njobs: [a]", `2:7 jobs: a list is not a mapping; write it like backup: {schedule: "0 2 * * *", run: [/usr/bin/backup], locks: [{scope: cluster/orders}]}`},
		"file is empty":             {"# nothing", "1:1 the file is empty; write a mapping with version, zookeeper and jobs"},
		"file is a list":            {"- a", "1:1 a list is not a mapping; write a mapping with version, zookeeper and jobs"},
		"unknown field":             {file("jbos: 1\n"), `2:1 unknown field "jbos"; did you mean "jobs"?`},
		"unknown field, no idea":    {file("xyz: 1\n"), `2:1 unknown field "xyz"; the file can have version, zookeeper, temporal, priorities, defaults, scopes, jobs, groups, scheduler, drain, drain_timeout, state_dir, emergency, approvals, audit, metrics, console, log`},
		"field of a later version":  {file("observability: {otlp: x}\n"), `2:1 unknown field "observability"; this version of lockkeeper cannot do that yet, remove it`},
		"key that is no name":       {file("? [a]\n: 1\n"), "2:3 a list is not a name; write a word"},
		"key without a name":        {file("~: 1\n"), "2:1 nothing is not a name; write a word"},
		"duplicate section":         {file("log: {}\nlog: {}\n"), `3:1 "log" stands here for the second time, first at 2:1; remove or rename one of them`},
		"duplicate job":             {"version: 1\njobs:\n  a: {schedule: '@daily', run: [x]}\n  a: {schedule: '@daily', run: [y], timeout: 5}", "4:3 jobs: \"a\" stands here for the second time, first at 3:3; remove or rename one of them\n" + `4:46 jobs[a].timeout: "5" is not a duration; write "5s"`},
		"drain timeout":             {file("drain_timeout: 1 min\n"), `2:16 drain_timeout: "1 min" is not a duration; write "1m"`},
		"drain timeout is negative": {file("drain_timeout: -1m\n"), `2:16 drain_timeout: "-1m" is negative; write "1m"`},
		"no drain at all":           {file("drain_timeout: 0\n"), ""},
		"log":                       {file("log: {format: yaml, level: trace}\n"), "2:15 log.format: \"yaml\" is not possible here; write text or json\n2:28 log.level: \"trace\" is not possible here; write debug or info or warn or error"},

		// ZooKeeper
		"no servers":                 {file("zookeeper: {servers: []}\n"), `2:22 zookeeper.servers: the list is empty; write [zk1:2181, zk2:2181] or "zk1:2181,zk2:2181/chroot"`},
		"bad servers":                {file("zookeeper: {servers: [a:b, \"c d\", e/f]}\n"), "2:23 zookeeper.servers[0]: \"a:b\" has no valid port; write host:port, for example localhost:2181\n2:28 zookeeper.servers[1]: \"c d\" contains a blank; write host:port, for example localhost:2181\n2:35 zookeeper.servers[2]: \"e/f\" is not one server; write host:port here, or all in one string: \"zk1:2181,zk2:2181/chroot\""},
		"bad connect string":         {file("zookeeper: {servers: \"a:b,c:70000\"}\n"), "2:22 zookeeper.servers: \"a:b\" has no valid port; write host:port, for example localhost:2181\n2:22 zookeeper.servers: \"c:70000\" has no valid port; write host:port, for example localhost:2181"},
		"root is relative":           {file("zookeeper: {root: lk}\n"), `2:19 zookeeper.root: lk does not begin with /; write an absolute path such as /lockkeeper`},
		"root is all there is":       {file("zookeeper: {root: /}\n"), `2:19 zookeeper.root: / is all that the server has; write an absolute path such as /lockkeeper`},
		"root ends with a slash":     {file("zookeeper: {root: /lk/}\n"), `2:19 zookeeper.root: /lk/ ends with /; write an absolute path such as /lockkeeper`},
		"root has an odd part":       {file("zookeeper: {root: /lk/../x}\n"), `2:19 zookeeper.root: /lk/../x has a relative part; write an absolute path such as /lockkeeper`},
		"root that steers terminals": {file("zookeeper: {root: \"/lk/\\e[31m\"}\n"), `2:19 zookeeper.root: /lk/\x1b[31m contains a control character; write an absolute path such as /lockkeeper`},
		"session timeout too long":   {file("zookeeper: {session_timeout: 2h}\n"), `2:30 zookeeper.session_timeout: 2h0m0s is out of range; write something from 1s to 60s, for example 15s`},
		"chroot":                     {file("zookeeper: {chroot: /x}\n"), `2:13 zookeeper: unknown field "chroot"; write it behind the servers: "zk1:2181,zk2:2181/chroot"`},

		// Priorities
		"class is negative":            {file("priorities: {classes: {low: -1}}\n"), "2:29 priorities.classes[low]: priority -1 is below the lowest; write a number from 0 (default, lowest) to 2147483646"},
		"class is the emergency level": {file("priorities: {classes: {top: {value: 2147483647}}}\n"), "2:37 priorities.classes[top].value: priority 2147483647 is the emergency level, reserved for operators' overrides; write 2147483646 or less, and let an operator override in an emergency"},
		"class is too high":            {file("priorities: {classes: {top: 2147483648}}\n"), "2:29 priorities.classes[top]: priority 2147483648 is above the highest; write a number from 0 to 2147483646"},
		"class is called emergency":    {file("priorities: {classes: {emergency: 5}}\n"), `2:24 priorities.classes[emergency]: "emergency" is the highest priority, reserved for operators' overrides; name the class otherwise`},
		"class is called by a number":  {file("priorities: {classes: {5: 6}}\n"), `2:24 priorities.classes[5]: "5" is not the name of a class; write a word`},
		"class is a word":              {file("priorities: {classes: {a: high}}\n"), `2:27 priorities.classes[a]: "high" is not a whole number; write a number such as 50, or {value: 50}`},
		"class without a value":        {file("priorities: {classes: {a: {}}}\n"), `2:27 priorities.classes[a]: value is missing; write a number such as 50, or {value: 50}`},
		"emergency priority":           {lockOf("priority: 2147483647"), "4:34 jobs[a].locks[0].priority: priority 2147483647 is the emergency level, reserved for operators' overrides; write 2147483646 or less, and let an operator override in an emergency"},
		"emergency by name":            {lockOf("priority: emergency"), `4:34 jobs[a].locks[0].priority: "emergency" is reserved for operators' overrides; write 2147483646 or less, and let an operator override in an emergency`},
		"highest priority of a job":    {lockOf("priority: 2147483646"), ""},
		"negative priority":            {lockOf("priority: -5"), "4:34 jobs[a].locks[0].priority: priority -5 is below the lowest; write a number from 0 (default, lowest) to 2147483646"},
		"hugely negative priority":     {lockOf("priority: -99999999999"), "4:34 jobs[a].locks[0].priority: priority -99999999999 is below the lowest; write a number from 0 (default, lowest) to 2147483646"},
		"priority in quotes":           {lockOf(`priority: "5"`), `4:34 jobs[a].locks[0].priority: "5" is a text; write 5 without quotes`},
		"priority with a fraction":     {lockOf("priority: 1.5"), `4:34 jobs[a].locks[0].priority: unknown priority class "1.5"; define it in priorities.classes, or write a number`},
		"unknown class, none defined":  {lockOf("priority: batch"), `4:34 jobs[a].locks[0].priority: unknown priority class "batch"; define it in priorities.classes, or write a number`},
		"unknown class, some defined":  {file("priorities: {classes: {critical: 90, batch: 20}}\ndefaults: {lock: {priority: bulk, lease_timeout: 1m}}\n"), `3:29 defaults.lock.priority: unknown priority class "bulk"; priorities.classes has batch, critical`},
		"class mistyped":               {file("priorities: {classes: {critical: 90, batch: 20}}\ndefaults: {lock: {priority: batsh}}\n"), `3:29 defaults.lock.priority: unknown priority class "batsh"; did you mean "batch"?`},
		"class whose value is wrong":   {file("priorities: {classes: {batch: x}}\ndefaults: {lock: {priority: batch}}\n"), `2:31 priorities.classes[batch]: "x" is not a whole number; write a number such as 50, or {value: 50}`},

		// Scopes
		"scope is not documented":      {file("scopes: {orders: {}}\njobs: {a: {schedule: '@daily', run: [x], locks: [{scope: order}]}}\n"), `3:58 jobs[a].locks[0].scope: unknown scope "order"; did you mean "orders"?`},
		"scope is unknown":             {file("scopes: {orders: {}}\njobs: {a: {schedule: '@daily', run: [x], locks: [{scope: users}]}}\n"), `3:58 jobs[a].locks[0].scope: unknown scope "users"; add it to the section scopes`},
		"scopes are empty":             {file("scopes: {}\njobs: {a: {schedule: '@daily', run: [x], locks: [{scope: users}]}}\n"), ""},
		"scope is shared":              {file("scopes: {orders: {mode: shared}}\n"), ""},
		"scope of semaphores":          {file("scopes: {orders: {mode: semaphore}}\n"), "2:25 scopes[orders].mode: semaphore mode is not supported by this version of lockkeeper; write exclusive or shared"},
		"scope is exclusive":           {file("scopes: {orders: {mode: exclusive}}\njobs: {a: {schedule: '@daily', run: [x], locks: [{scope: orders, mode: shared}]}}\n"), `3:72 jobs[a].locks[0].mode: shared mode for scope "orders", which line 2 says is exclusive; write exclusive, or allow shared there`},
		"scope is exclusive, inherits": {file("scopes: {orders: {mode: exclusive}}\ndefaults: {lock: {mode: shared}}\njobs: {a: {schedule: '@daily', run: [x], locks: [{scope: orders}]}}\n"), `4:50 jobs[a].locks[0]: shared mode for scope "orders", which line 2 says is exclusive; write exclusive, or allow shared there`},
		"scope has another mode":       {file("scopes: {orders: {mode: exlusive}}\n"), `2:25 scopes[orders].mode: "exlusive" is unknown; write exclusive or shared`},
		"scope with blanks":            {file("scopes: {\" orders\": {}}\n"), `2:10 scopes[ orders]: " orders" has white space at its ends; write "orders"`},
		"scope with an empty part":     {file("scopes: {a//b: {}}\n"), `2:10 scopes[a//b]: "a//b" has an empty part after "a"; write "a/b"`},
		"lock with a slash too many":   {job("locks: [{scope: cluster/orders/}]"), `4:21 jobs[a].locks[0].scope: "cluster/orders/" ends with a slash; write "cluster/orders"`},
		"scope is a list":              {file("scopes: [orders]\n"), "2:9 scopes: a list is not a mapping; write it like cluster/orders: {owner: team-orders}"},
		"scope has a later field":      {file("scopes: {orders: {max_hold: 1h}}\n"), `2:19 scopes[orders]: unknown field "max_hold"; this version of lockkeeper cannot do that yet, remove it`},
		"scope without a value":        {file("scopes:\n  orders:\n"), "3:10 scopes[orders]: has no value; write it like cluster/orders: {owner: team-orders}"},
		"scope is missing":             {job("locks: [{lease_timeout: 1m}]"), "4:13 jobs[a].locks[0]: scope is missing; write what the lock protects, for example scope: cluster/orders"},
		"scope is empty":               {job(`locks: [{scope: ""}]`), `4:21 jobs[a].locks[0].scope: "" is empty; write what the lock protects, for example cluster/orders`},
		"scope has a control letter":   {job(`locks: [{scope: "a\tb"}]`), `4:21 jobs[a].locks[0].scope: "a\tb" contains a control character or invalid UTF-8; write printable characters`},
		"scope is too long":            {job("locks: [{scope: " + strings.Repeat("a/", 60) + "b}]"), fmt.Sprintf("4:21 jobs[a].locks[0].scope: %q takes 241 bytes (a slash counts as 3); the limit is 200", strings.Repeat("a/", 60)+"b")},
		"lock has a shared mode":       {lockOf("mode: shared"), ""},
		"message is too long":          {job("locks: [{scope: s, message: " + strings.Repeat("m", 16385) + "}]"), "4:33 jobs[a].locks[0].message: the message takes 16385 bytes, more than 16384; write a shorter one"},
		"message is just short enough": {job("locks: [{scope: s, message: " + strings.Repeat("m", 16384) + "}]"), ""},
		"same scope in several jobs":   {file("jobs:\n  a: {schedule: '@daily', run: [x], locks: [{scope: s}]}\n  b: {schedule: '@daily', run: [x], locks: [{scope: s}]}\n"), ""},
		"lock settings at the job":     {job("lease_timeout: 5m"), `4:5 jobs[a]: unknown field "lease_timeout"; it belongs to a lock: locks: [{lease_timeout: ...}]`},
		"lock settings at defaults":    {file("defaults: {forceful: true}\n"), `2:12 defaults: unknown field "forceful"; write it under defaults: {lock: {forceful: ...}}`},
		"scope in defaults":            {file("defaults: {lock: {scope: s}}\n"), `2:19 defaults.lock: unknown field "scope"; a scope belongs to a lock of a job`},
		"two locks":                    {job("locks: [{scope: s}, {scope: t}]"), ""},
		"one scope in two locks":       {job("locks:\n  - {scope: s}\n  - {scope: t}\n  - {scope: s, lease_timeout: 1x}"), "7:17 jobs[a].locks[2].scope: \"s\" is locked here for the second time, first at 5:17; remove one of the locks\n" + `7:35 jobs[a].locks[2].lease_timeout: "1x" is not a duration; write it like "30s", "5m" or "1h30m"`},
		"two locks without a scope":    {job("locks: [{priority: 1}, {priority: 2}]"), "4:13 jobs[a].locks[0]: scope is missing; write what the lock protects, for example scope: cluster/orders\n4:28 jobs[a].locks[1]: scope is missing; write what the lock protects, for example scope: cluster/orders"},
		"no locks in the list":         {job("locks: []"), "4:12 jobs[a].locks: the list is empty; remove it when the job needs no lock, or write it like [{scope: cluster/orders}]"},
		"locks are a mapping":          {job("locks: {scope: s}"), "4:12 jobs[a].locks: a mapping is not a list; write it like [{scope: cluster/orders}]"},
		"lock is a word":               {job("locks: [s]"), `4:13 jobs[a].locks[0]: "s" is not a mapping; write it like {scope: cluster/orders, lease_timeout: 10m}`},
		"mistyped field of a lock":     {lockOf("leese: 5m"), `4:24 jobs[a].locks[0]: unknown field "leese"; did you mean "lease_timeout"?`},
		"field of a later lock":        {lockOf("permits: 3"), `4:24 jobs[a].locks[0]: unknown field "permits"; this version of lockkeeper cannot do that yet, remove it`},
		"message has no value":         {lockOf("message: "), `4:33 jobs[a].locks[0].message: has no value; write why the lock is held, for people`},
		"forceful without a waiting":   {lockOf("forceful: true"), ""},
		"forceful is yes":              {lockOf("forceful: yes"), `4:34 jobs[a].locks[0].forceful: "yes" is not true or false; write true`},
		"forceful is a text":           {lockOf(`forceful: "false"`), `4:34 jobs[a].locks[0].forceful: "false" is not true or false; write false without quotes`},
		"forceful is something else":   {lockOf("forceful: 7"), `4:34 jobs[a].locks[0].forceful: "7" is not true or false; write true or false`},
		"forceful has no value at all": {lockOf("forceful: ~"), "4:34 jobs[a].locks[0].forceful: has no value; write true or false"},

		// Timeouts
		"lease is no duration":  {lockOf("lease_timeout: 30 seconds"), `4:39 jobs[a].locks[0].lease_timeout: "30 seconds" is not a duration; write "30s"`},
		"lease has no unit":     {lockOf("lease_timeout: 30"), `4:39 jobs[a].locks[0].lease_timeout: "30" is not a duration; write "30s"`},
		"lease is zero":         {lockOf("lease_timeout: 0"), `4:39 jobs[a].locks[0].lease_timeout: "0" must be positive; write a duration such as "30s", or leave it out`},
		"lease is zero for all": {file("defaults: {lock: {lease_timeout: 0s}}\njobs: {a: {schedule: '@daily', run: [x]}}\n"), `2:34 defaults.lock.lease_timeout: "0s" must be positive; write a duration such as "30s", or leave it out`},
		"lease is negative":     {lockOf("lease_timeout: -10m"), `4:39 jobs[a].locks[0].lease_timeout: -10m is negative; write how long the work needs, or leave it out`},
		"lease is negative for all, once": {
			file("defaults: {lock: {lease_timeout: -10m}}\njobs: {a: {schedule: '@daily', run: [x], locks: [{scope: s}]}, b: {schedule: '@daily', run: [x], locks: [{scope: s, cleanup_timeout: 5m}]}}\n"),
			"2:34 defaults.lock.lease_timeout: -10m is negative; write how long the work needs, or leave it out",
		},
		"lease is too short to measure":   {lockOf("lease_timeout: 10us"), `4:39 jobs[a].locks[0].lease_timeout: 10µs is too short; write 1ms or more`},
		"lease is a list":                 {lockOf("lease_timeout: [1m]"), `4:39 jobs[a].locks[0].lease_timeout: a list cannot stand here; write a duration such as "30s"`},
		"lease has no value":              {lockOf("lease_timeout: "), `4:39 jobs[a].locks[0].lease_timeout: has no value; write a duration such as "30s"`},
		"waiting has no value":            {lockOf("waiting_timeout: "), `4:41 jobs[a].locks[0].waiting_timeout: has no value; write a duration such as "30s", or unset for no limit`},
		"waiting is negative":             {lockOf("waiting_timeout: -1s"), `4:41 jobs[a].locks[0].waiting_timeout: -1s is negative; write 0 to wait for no cleanup, or leave it out`},
		"lease is unset":                  {lockOf("lease_timeout: unset"), `4:39 jobs[a].locks[0].lease_timeout: "unset" is not a duration; write it like "30s", "5m" or "1h30m"`},
		"acquire is unset":                {lockOf("acquire_timeout: unset"), ""},
		"cleanup as long as the lease":    {lockOf("lease_timeout: 30s, cleanup_timeout: 30s"), "4:61 jobs[a].locks[0].cleanup_timeout: cleanup_timeout (30s) must be shorter than lease_timeout (30s); shorten the one or lengthen the other"},
		"cleanup just below the lease":    {lockOf("lease_timeout: 30s, cleanup_timeout: 29999ms"), ""},
		"cleanup above the default lease": {lockOf("cleanup_timeout: 11m"), "4:41 jobs[a].locks[0].cleanup_timeout: cleanup_timeout (11m) must be shorter than lease_timeout (10m, the default); shorten the one or lengthen the other"},
		"lease below the inherited cleanup": {
			file("defaults: {lock: {cleanup_timeout: 2m}}\njobs: {a: {schedule: '@daily', run: [x], locks: [{scope: s, lease_timeout: 1m}]}}\n"),
			"3:76 jobs[a].locks[0].lease_timeout: cleanup_timeout (2m, from defaults.lock) must be shorter than lease_timeout (1m); shorten the one or lengthen the other",
		},
		"lease below the cleanup of commands": {
			file("zookeeper: {session_timeout: 2s}\njobs: {a: {schedule: '@daily', run: [x], locks: [{scope: s, lease_timeout: 5s}]}}\n"),
			"3:76 jobs[a].locks[0].lease_timeout: cleanup_timeout (10s, the default of commands) must be shorter than lease_timeout (5s); shorten the one or lengthen the other",
		},
		"cleanup and lease of the defaults, once": {
			file("defaults: {lock: {cleanup_timeout: 2m, lease_timeout: 1m}}\njobs: {a: {schedule: '@daily', run: [x], locks: [{scope: s}]}, b: {schedule: '@daily', run: [x], locks: [{scope: s}]}}\n"),
			"2:36 defaults.lock.cleanup_timeout: cleanup_timeout (2m) must be shorter than lease_timeout (1m); shorten the one or lengthen the other",
		},
		"lease below the session": {
			lockOf("lease_timeout: 14s"),
			"4:39 jobs[a].locks[0].lease_timeout: lease_timeout (14s) is shorter than zookeeper.session_timeout (15s, the default), within which a dead holder is noticed; write 15s or more, or a shorter session_timeout",
		},
		"lease as long as the session": {lockOf("lease_timeout: 15s"), ""},
		"default lease below the session, once": {
			file("zookeeper: {session_timeout: 20m}\njobs: {a: {schedule: '@daily', run: [x], locks: [{scope: s}]}, b: {schedule: '@daily', run: [x], locks: [{scope: s}]}}\n"),
			"2:30 zookeeper.session_timeout: lease_timeout (10m, the default) is shorter than zookeeper.session_timeout (20m), within which a dead holder is noticed; write a shorter one, or a longer lease_timeout",
		},
		"nothing follows from a bad session timeout": {
			file("zookeeper: {session_timeout: x}\njobs: {a: {schedule: '@daily', run: [x], locks: [{scope: s, lease_timeout: 11s}]}}\n"),
			`2:30 zookeeper.session_timeout: "x" is not a duration; write it like "30s", "5m" or "1h30m"`,
		},

		// Jobs
		"job has no value":        {"version: 1\njobs:\n  a:\n", `3:5 jobs[a]: has no value; write it like backup: {schedule: "0 2 * * *", run: [/usr/bin/backup], locks: [{scope: cluster/orders}]}`},
		"job is empty":            {"version: 1\njobs:\n  a: {}\n", "3:3 jobs[a]: schedule is missing; write for example schedule: \"0 2 * * *\" or \"@every 5m\"\n3:3 jobs[a]: run is missing; write the command, for example run: [/usr/bin/backup, --all]"},
		"job has a bad name":      {"version: 1\njobs:\n  a b: {schedule: '@daily', run: [x]}\n", `3:3 jobs[a b]: "a b" contains ' '; write only letters, digits, dots, underscores and hyphens`},
		"job has a number's name": {"version: 1\njobs:\n  7: {schedule: '@daily', run: [x]}\n", ""},
		"mistyped field of a job": {"version: 1\njobs:\n  a:\n    scedule: x\n    run: [x]\n", "3:3 jobs[a]: schedule is missing; write for example schedule: \"0 2 * * *\" or \"@every 5m\"\n4:5 jobs[a]: unknown field \"scedule\"; did you mean \"schedule\"?"},
		"later field of a job":    {job("after: [b]"), `4:5 jobs[a]: unknown field "after"; this version of lockkeeper cannot do that yet, remove it`},
		"command beside run":      {job("command: [x]"), `4:5 jobs[a]: unknown field "command"; write run: [command, argument], or run: {command: [...]}`},
		"timeout is zero":         {job("timeout: 0s"), `4:14 jobs[a].timeout: "0s" must be positive; write a duration such as "30s", or leave it out`},
		"timeout is in days":      {job("timeout: 2 days"), `4:14 jobs[a].timeout: "2 days" is not a duration; write "48h"`},
		"schedule never due":      {job(`schedule: "0 0 30 2 *"`), `4:15 jobs[a].schedule: "0 0 30 2 *": it is never due: no month has such a day; write for example "0 2 * * *" or "@every 5m"`},
		"schedule out of range":   {job(`schedule: "61 * * * *"`), `4:15 jobs[a].schedule: "61 * * * *": minute: 61 is not between 0 and 59; write 0 to 59`},
		"schedule with a sign":    {job(`schedule: "+5 * * * *"`), `4:15 jobs[a].schedule: "+5 * * * *": minute: "+5" has a sign; write 5, or */5 for steps of 5`},
		"schedule of Quartz": {
			job(`schedule: "0 2 L * ?"`),
			`4:15 jobs[a].schedule: "0 2 L * ?": day of month: "L", the last day of the month as in Quartz, is not supported; ` +
				`write 28-31 and let the job end unless tomorrow is the 1st, or write 1 for the day after`,
		},
		"schedule at boot": {
			job(`schedule: "@reboot"`),
			`4:15 jobs[a].schedule: "@reboot": a tick belongs to the whole cluster, and no machine's start is one; ` +
				`write manual here, and let systemd start "lockkeeper jobs run" or "lockkeeper exec" at boot`,
		},
		"schedule of four fields":  {job(`schedule: "0 0 * *"`), `4:15 jobs[a].schedule: "0 0 * *": expected 5 or 6 fields (second, if any; minute, hour, day of month, month, day of week), found 4; write for example "0 2 * * *" or "@every 5m"`},
		"schedule of six fields":   {job(`schedule: "*/5 0 0 * * *"`), ""},
		"schedule with two zones":  {job("schedule: \"CRON_TZ=UTC 0 0 * * *\"\ntimezone: UTC"), `4:15 jobs[a].schedule: "CRON_TZ=UTC 0 0 * * *": the time zone is given twice, as "UTC" in front and as "UTC" beside it; drop one`},
		"interval below a second":  {job(`schedule: "@every 100ms"`), `4:15 jobs[a].schedule: "@every 100ms": the period 100ms is shorter than a second; write 1s or more`},
		"time zone unknown":        {job("timezone: Europe/Bonn"), `4:15 jobs[a].timezone: "Europe/Bonn" is not a time zone; write a name such as UTC or Europe/Berlin`},
		"time zone of the machine": {job("timezone: Local"), `4:15 jobs[a].timezone: "Local" is not a time zone; write a name such as UTC or Europe/Berlin`},

		// What they run
		"run is empty":                   {job("run: []"), "4:10 jobs[a].run: the command is empty; write the command as a list, for example [/usr/bin/backup, --all]"},
		"run has no value":               {job("run:"), "4:9 jobs[a].run: has no value; write the command as a list, for example [/usr/bin/backup, --all]"},
		"run has no program":             {job(`run: ["", x]`), "4:11 jobs[a].run[0]: the name of the command is empty; write the command as a list, for example [/usr/bin/backup, --all]"},
		"run is a line":                  {job("run: backup --all"), `4:10 jobs[a].run: "backup --all" is not a command; write [backup, --all]`},
		"run is a line for a shell":      {job("run: a | b"), `4:10 jobs[a].run: "a | b" is not a command; write it as a list; with a shell: [/bin/sh, -c, "a | b"]`},
		"run has a list in it":           {job("run: [a, [b]]"), "4:14 jobs[a].run[1]: a list cannot stand here; write a text, in quotes if need be"},
		"run has nothing in it":          {job("run: [a, ~]"), "4:14 jobs[a].run[1]: has no value; write a text, in quotes if need be"},
		"run has a tag":                  {job("run: [!!binary eA==]"), `4:11 jobs[a].run[0]: the tag "!!binary" means nothing here; remove it`},
		"run has a NUL":                  {job(`run: ["a\0b"]`), `4:11 jobs[a].run[0]: "a\x00b" has a NUL character in it; remove it`},
		"run without a command":          {job("run: {dir: /}"), "4:10 jobs[a].run: command is missing; write {command: [/usr/bin/backup, --all]}, or {http: {url: ...}}"},
		"run with an empty command":      {job("run: {command: []}"), "4:20 jobs[a].run.command: the command is empty; write the command as a list, for example [/usr/bin/backup, --all]"},
		"run with a command line":        {job("run: {command: backup --all}"), `4:20 jobs[a].run.command: "backup --all" is not a list; write [backup, --all]`},
		"run with exec":                  {job("run: {exec: [x]}"), "4:10 jobs[a].run: command is missing; write {command: [/usr/bin/backup, --all]}, or {http: {url: ...}}\n4:11 jobs[a].run: unknown field \"exec\"; did you mean \"command\"?"},
		"run with a workflow":            {job("run: {command: [x], temporal: {}}"), `4:25 jobs[a].run.temporal: there is "command" beside it; remove one of them, or write two jobs`},
		"function unknown":               {job("run: go:vacum"), `4:10 jobs[a].run: no Go function "vacum" is registered; did you mean "vacuum"?`},
		"function is not registered":     {job("run: go:x"), `4:10 jobs[a].run: no Go function "x" is registered; this program has reindex, vacuum`},
		"env is a list":                  {job("run: {command: [x], env: [A=1]}"), "4:30 jobs[a].run.env: a list is not a mapping; write it like {LANG: C}"},
		"env has an odd name":            {job("run: {command: [x], env: {A-B: 1}}"), `4:31 jobs[a].run.env[A-B]: "A-B" is not the name of an environment variable; write letters, digits and underscores`},
		"env has our names":              {job("run: {command: [x], env: {LOCKKEEPER_TOKEN: 1}}"), "4:31 jobs[a].run.env[LOCKKEEPER_TOKEN]: LOCKKEEPER_TOKEN is set by lockkeeper itself; remove it"},
		"env has no value":               {job("run: {command: [x], env: {A: }}"), `4:34 jobs[a].run.env[A]: has no value; write a text; "" for an empty one`},
		"dir is a file":                  {job("run: {command: [x], dir: lockkeeper.yaml}"), `4:30 jobs[a].run.dir: "testdata/lockkeeper.yaml" is not a directory; name a directory`},
		"cleanup without time":           {job("run: {command: [x], cleanup: [y]}\nlocks: [{scope: s, cleanup_timeout: 0}]"), "4:34 jobs[a].run.cleanup: the cleanup would have no time to run: cleanup_timeout is 0; write in the lock how long it needs, for example cleanup_timeout: 30s"},
		"cleanup without time in one":    {job("run: {command: [x], cleanup: [y]}\nlocks: [{scope: s}, {scope: t, cleanup_timeout: 0}]"), `4:34 jobs[a].run.cleanup: the cleanup would have no time to run: cleanup_timeout of "t" is 0; write in the lock how long it needs, for example cleanup_timeout: 30s`},
		"cleanup with time of its own":   {job("run: {command: [x], cleanup: [y]}\nlocks: [{scope: s}]"), ""},
		"cleanup without a lock":         {job("run: {command: [x], cleanup: [y]}"), "4:34 jobs[a].run.cleanup: a cleanup runs under a lock, but the job needs none; write its locks, or remove the cleanup"},
		"function's cleanup, no time":    {job("run: go:vacuum\nlocks: [{scope: s}]"), "4:10 jobs[a].run: the cleanup would have no time to run: cleanup_timeout is 0, the default; write in the lock how long it needs, for example cleanup_timeout: 30s"},
		"function's cleanup with time":   {job("run: go:vacuum\nlocks: [{scope: s, cleanup_timeout: 1s}]"), ""},
		"cleanup's time of the defaults": {file("defaults: {lock: {cleanup_timeout: 0}}\njobs: {a: {schedule: '@daily', run: {command: [x], cleanup: [y]}, locks: [{scope: s}]}}\n"), "3:61 jobs[a].run.cleanup: the cleanup would have no time to run: cleanup_timeout is 0, from defaults.lock; write in the lock how long it needs, for example cleanup_timeout: 30s"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, _ := parse(t, c.text)
			require.Equal(t, c.want, strings.Join(problems, "\n"), "%s", c.text)
		})
	}
}

func TestWarnings(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"both days": {
			job(`schedule: "0 0 1 * 1"`),
			"4:15 jobs[a].schedule: warning: day of month (1) and day of week (1) are both set: it runs when either matches; write * for one of them",
		},
		"a step leaves days out": {
			job(`schedule: "0 0 */3 * 1"`),
			"4:15 jobs[a].schedule: warning: day of month (*/3) and day of week (1) are both set: it runs when either matches; write * for one of them\n" +
				"4:15 jobs[a].schedule: warning: day of month: */3 begins anew with each month, so that the last step of a month is shorter or longer than 3 days; write @every 72h for each 3 days, or list the days",
		},
		"one of the days has a star":     {job(`schedule: "0 0 * * 1"`), ""},
		"what the scheduler advises":     {job("schedule: \"@every 7h\""), "4:15 jobs[a].schedule: warning: @every 7h does not divide a day: it is due at other times each day; write a period that divides 24h, or five cron fields"},
		"advice about what is inherited": {file("defaults: {blackout: [{schedule: '@monthly', for: 800h}]}\njobs:\n  a: {schedule: '@hourly', run: [x]}\n"), "4:3 jobs[a]: warning: blackouts cover every tick of the next year: the job never runs; shorten them, or pause the job instead"},
		"both days, with seconds and a zone": {
			job(`schedule: "TZ=UTC 0 0 0 1 * mon"`),
			"4:15 jobs[a].schedule: warning: day of month (1) and day of week (mon) are both set: it runs when either matches; write * for one of them",
		},
		"manual": {job("schedule: manual"), ""},
		"timeout above the lease": {
			job("timeout: 1h\nlocks: [{scope: s}]"),
			"4:14 jobs[a].timeout: warning: timeout (1h) is longer than lease_timeout (10m, the default): after the lease any request may preempt the job; write a lease_timeout as long as the work may take",
		},
		"timeout above one of the leases": {
			job("timeout: 1h\nlocks: [{scope: s, lease_timeout: 2h}, {scope: t}]"),
			"4:14 jobs[a].timeout: warning: timeout (1h) is longer than lease_timeout of \"t\" (10m, the default): after the lease any request may preempt the job; write a lease_timeout as long as the work may take",
		},
		"acquire timeout that does nothing": {
			job("locks: [{scope: s, acquire_timeout: 1h}, {scope: t, acquire_timeout: 1m}, {scope: u, acquire_timeout: unset}, {scope: v}]"),
			"4:41 jobs[a].locks[0].acquire_timeout: warning: acquire_timeout (1h) does nothing: that of \"t\" is shorter (1m), and the shortest counts for all locks of a job; remove it, or write the same for all\n" +
				"4:107 jobs[a].locks[2].acquire_timeout: warning: acquire_timeout (unset) does nothing: that of \"t\" is shorter (1m), and the shortest counts for all locks of a job; remove it, or write the same for all",
		},
		"same acquire timeout for all":  {job("locks: [{scope: s, acquire_timeout: 1m}, {scope: t, acquire_timeout: 1m}]"), ""},
		"timeout as long as the lease":  {job("timeout: 10m\nlocks: [{scope: s}]"), ""},
		"forceful try":                  {lockOf("acquire_timeout: 0, forceful: true"), "4:41 jobs[a].locks[0].acquire_timeout: warning: acquire_timeout 0 never preempts: forceful does nothing; remove one of them"},
		"try that waits":                {lockOf("acquire_timeout: 0, waiting_timeout: 1m"), "4:41 jobs[a].locks[0].acquire_timeout: warning: acquire_timeout 0 never preempts: waiting_timeout does nothing; remove one of them"},
		"waiting longer than acquiring": {lockOf("acquire_timeout: 1m, waiting_timeout: 2m"), "4:62 jobs[a].locks[0].waiting_timeout: warning: waiting_timeout (2m) is longer than acquire_timeout (1m), which ends first; lengthen the acquire_timeout or shorten the waiting_timeout"},
		"class that is no default":      {file("priorities: {classes: {default: 50}}\n"), "2:24 priorities.classes[default]: warning: this class is no default: locks without a priority have priority 0; write defaults: {lock: {priority: default}} as well"},
		"class that is the default":     {file("priorities: {classes: {default: 50}}\ndefaults: {lock: {priority: default}}\n"), ""},
		"directory is missing":          {job("run: {command: [x], dir: /no/such/place}"), `4:30 jobs[a].run.dir: warning: "/no/such/place" cannot be found: no such file or directory; make the directory before the job runs`},
		"less patient than the cleanup below": {
			file("jobs:\n  low: {schedule: '@daily', run: [x], locks: [{scope: s, cleanup_timeout: 1m}]}\n  high: {schedule: '@daily', run: [x], locks: [{scope: s, priority: 5, waiting_timeout: 30s}]}\n"),
			`4:89 jobs[high].locks[0].waiting_timeout: warning: waiting_timeout (30s) is shorter than the cleanup_timeout (1m) of the job "low", which has the same scope: this one would give up first; write 1m or more`,
		},
		"as patient as the cleanup below": {
			file("jobs:\n  low: {schedule: '@daily', run: [x], locks: [{scope: s, cleanup_timeout: 1m}]}\n  high: {schedule: '@daily', run: [x], locks: [{scope: s, priority: 5, waiting_timeout: 1m}]}\n"), "",
		},
		"less patient than the cleanup below, in the second lock": {
			file("jobs:\n  low: {schedule: '@daily', run: [x], locks: [{scope: t, cleanup_timeout: 1m}, {scope: s}]}\n  high: {schedule: '@daily', run: [x], locks: [{scope: s, priority: 5, waiting_timeout: 30s}, {scope: t, priority: 5, waiting_timeout: 30s}]}\n"),
			`4:136 jobs[high].locks[1].waiting_timeout: warning: waiting_timeout (30s) is shorter than the cleanup_timeout (1m) of the job "low", which has the same scope: this one would give up first; write 1m or more`,
		},
		"less patient than a writer's cleanup, as a reader": {
			file("jobs:\n  low: {schedule: '@daily', run: [x], locks: [{scope: s, cleanup_timeout: 1m}]}\n  low2: {schedule: '@daily', run: [x], locks: [{scope: s, mode: shared, cleanup_timeout: 2m}]}\n  high: {schedule: '@daily', run: [x], locks: [{scope: s, mode: shared, priority: 5, waiting_timeout: 30s}]}\n"),
			`5:103 jobs[high].locks[0].waiting_timeout: warning: waiting_timeout (30s) is shorter than the cleanup_timeout (1m) of the job "low", which has the same scope: this one would give up first; write 1m or more`,
		},
		"less patient than a reader's cleanup, as a reader": {
			file("jobs:\n  low: {schedule: '@daily', run: [x], locks: [{scope: s, mode: shared, cleanup_timeout: 1m}]}\n  high: {schedule: '@daily', run: [x], locks: [{scope: s, mode: shared, priority: 5, waiting_timeout: 30s}]}\n"), "",
		},
		"less patient, but too near to preempt": {
			file("priorities: {preempt_delta: 6}\njobs:\n  low: {schedule: '@daily', run: [x], locks: [{scope: s, cleanup_timeout: 1m}]}\n  high: {schedule: '@daily', run: [x], locks: [{scope: s, priority: 5, waiting_timeout: 30s}]}\n"), "",
		},
		"less patient, but forceful": {
			file("jobs:\n  low: {schedule: '@daily', run: [x], locks: [{scope: s, cleanup_timeout: 1m}]}\n  high: {schedule: '@daily', run: [x], locks: [{scope: s, priority: 5, waiting_timeout: 30s, forceful: true}]}\n"), "",
		},
		"less patient than the cleanup of an equal": {
			file("jobs:\n  one: {schedule: '@daily', run: [x], locks: [{scope: s, cleanup_timeout: 1m, priority: 5}]}\n  two: {schedule: '@daily', run: [x], locks: [{scope: s, priority: 5, waiting_timeout: 30s}]}\n"), "",
		},
		"less patient than the cleanup of another scope": {
			file("jobs:\n  low: {schedule: '@daily', run: [x], locks: [{scope: t, cleanup_timeout: 1m}]}\n  high: {schedule: '@daily', run: [x], locks: [{scope: s, priority: 5, waiting_timeout: 30s}]}\n"), "",
		},
		"warnings come with problems, too": {job("schedule: \"0 0 1 * 1\"\nrum: x"), "4:15 jobs[a].schedule: warning: day of month (1) and day of week (1) are both set: it runs when either matches; write * for one of them"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems, warnings := parse(t, c.text)
			require.Equal(t, c.want, strings.Join(warnings, "\n"), "%s\n%v", c.text, problems)
		})
	}
}
