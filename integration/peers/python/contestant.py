"""Kazoo's lock, behind the line protocol of the Go package contestant."""

import argparse
import json
import os
import sys
import threading
import time

from kazoo.client import KazooClient

GRACE = 20.0


class Contestant:
    def __init__(self, servers, session):
        self.servers = servers
        self.session = session
        self.clients = []

    def client(self, i):
        while len(self.clients) <= i:
            server = self.servers[len(self.clients) % len(self.servers)]
            client = KazooClient(hosts=server, timeout=self.session)
            client.start(timeout=60)
            self.clients.append(client)
        return self.clients[i]

    def door(self, worker, client, turn):
        return self.client(client).Lock("/kazoo/" + turn["locks"][worker], "bench")

    def play(self, turn):
        what = turn["do"]
        if what == "cycles":
            return self.cycles(turn)
        if what in ("hold", "acquire"):
            lock = self.door(0, 0, turn)
            start = time.perf_counter()
            lock.acquire()
            seconds = time.perf_counter() - start
            if what == "acquire":
                lock.release()
            return {"cycles": 1, "seconds": seconds}
        raise ValueError("kazoo cannot " + what)

    def cycles(self, turn):
        n = len(turn["locks"])
        crowd = turn.get("clients") or n
        workers = [Worker(self.door(i, i % crowd, turn), turn) for i in range(n)]
        before = time.process_time()
        end = time.perf_counter() + turn["seconds"]
        for w in workers:
            w.end = end
            w.start()
        for w in workers:
            w.join(max(0.001, end + GRACE - time.perf_counter()))
        cpu = time.process_time() - before
        stuck = sum(w.is_alive() for w in workers)
        took = sorted(t for w in workers for t in w.took)
        errors = [e for w in workers for e in w.errors]
        if stuck:
            errors += ["%d workers did not come to an end" % stuck]
        result = {
            "cycles": len(took),
            "late": sum(w.late for w in workers),
            "seconds": turn["seconds"],
            "cpu_ms": 1000 * cpu,
            "errors": len(errors),
            "violations": sum(w.violations for w in workers),
        }
        if errors:
            result["first_error"] = errors[0]
        if took:
            result["p50_us"] = 1e6 * took[len(took) // 2]
            result["p99_us"] = 1e6 * took[len(took) * 99 // 100]
        return result


class Worker(threading.Thread):
    """One that wants a lock, again and again."""

    def __init__(self, lock, turn):
        super().__init__(daemon=True)
        self.lock = lock
        self.work = turn.get("work_us", 0) / 1e6
        self.check = turn.get("check")
        self.permits = max(1, turn.get("permits", 0))
        self.took = []
        self.errors = []
        self.violations = 0
        self.late = 0

    def run(self):
        while time.perf_counter() < self.end:
            try:
                self.cycle()
            except Exception as e:  # whatever it is, it counts
                self.errors.append(repr(e))

    def cycle(self):
        asked = time.perf_counter()
        self.lock.acquire()
        got = time.perf_counter()
        place = self.inside() if self.check else None
        if self.work:
            time.sleep(self.work)
        if place:
            os.remove(place)
        done = time.perf_counter()
        self.lock.release()
        now = time.perf_counter()
        if now < self.end:
            self.took.append(got - asked + now - done)
        else:
            self.late += 1

    def inside(self):
        for i in range(self.permits):
            place = os.path.join(self.check, "place-%d" % i)
            try:
                os.close(os.open(place, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
                return place
            except FileExistsError:
                continue
        self.violations += 1
        return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", required=True)
    parser.add_argument("--server", required=True)
    parser.add_argument("--session-ms", type=int, default=10000)
    args = parser.parse_args()
    contestant = Contestant(args.server.split(","), args.session_ms / 1000)
    for line in sys.stdin:
        try:
            result = contestant.play(json.loads(line))
        except Exception as e:  # it is reported, and the next turn comes
            result = {"error": repr(e)}
        print(json.dumps(result), flush=True)
    for client in contestant.clients:
        client.stop()
        client.close()


main()
