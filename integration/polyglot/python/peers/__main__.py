"""Takes turns with Kazoo's recipes: python -m peers HOSTS PATH REFEREE THREADS KIND."""

import os
import socket
import sys
import threading
import traceback

from kazoo.client import KazooClient
from kazoo.recipe.lock import Lock, ReadLock, Semaphore, WriteLock
from kazoo.retry import ForceRetryError


class CuratorMutex(Lock):
    """Kazoo's lock by the names of Curator's InterProcessMutex."""

    _NODE_NAME = "-lock-"
    _EXCLUDE_NAMES = ["-lock-"]


class InOrder:
    """Makes a lock wait for those in front of it alone. Kazoo 2.8 makes a reader wait for writers behind it, which wait
    for the reader."""

    def _get_predecessor(self, node):
        children = self.client.get_children(self.path)
        if node not in children:
            raise ForceRetryError()
        front = [child for child in children if self._contenders_re.search(child) and child[-10:] < node[-10:]]
        return max(front, key=lambda child: child[-10:], default=None)


class ReaderInOrder(InOrder, ReadLock):
    """Kazoo's read lock, with Kazoo's names."""


class CuratorWriteLock(Lock):
    """Kazoo's lock by the names of the write side of Curator's InterProcessReadWriteLock."""

    _NODE_NAME = "__WRIT__"
    _EXCLUDE_NAMES = ["__WRIT__", "__READ__"]


class CuratorReadLock(InOrder, Lock):
    """Kazoo's lock by the names of the read side of Curator's InterProcessReadWriteLock."""

    _NODE_NAME = "__READ__"
    _EXCLUDE_NAMES = ["__WRIT__"]


# For each kind, how to make what writes and what reads.
KINDS = {
    "mutex": (Lock, None),
    "mutex-extra": (lambda c, p, i: Lock(c, p, i, extra_lock_patterns=["-lock-"]), None),
    "mutex-curator": (CuratorMutex, None),
    "readwrite": (WriteLock, ReaderInOrder),
    "readwrite-curator": (CuratorWriteLock, CuratorReadLock),
    "semaphore": (lambda c, p, i: Semaphore(c, p, i, max_leases=2), None),
}


class Referee:
    """The line to the referee."""

    def __init__(self, port):
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._file = connection.makefile("rw", encoding="utf-8", newline="\n")

    def ask(self, line):
        self._file.write(line + "\n")
        self._file.flush()
        answer = self._file.readline().strip()
        if not answer:
            raise RuntimeError("the referee has left")
        return answer


def play(client, path, port, kind):
    writer, reader = KINDS[kind]
    referee = Referee(port)
    while True:
        turn = referee.ask("turn")
        if turn == "stop":
            return
        # A lock object makes sure of the directory once, and the server removes it when it is unused: a new one each
        # time.
        lock = (writer if turn == "write" else reader)(client, path, "python")
        lock.acquire()
        referee.ask("enter python")
        referee.ask("leave")
        lock.release()


def hold(client, path, port):
    """Holds a mutex until it is killed."""
    referee = Referee(port)
    referee.ask("turn")
    CuratorMutex(client, path).acquire()
    referee.ask("enter python")
    threading.Event().wait()


def live():
    """Nothing outlives the test: when it is gone, so is this program."""
    sys.stdin.read()
    os._exit(3)


def main(hosts, path, port, threads, kind):
    threading.Thread(target=live, daemon=True).start()
    client = KazooClient(hosts=hosts, timeout=10 if kind == "hold" else 20)
    client.start(timeout=30)
    if kind == "hold":
        hold(client, path, int(port))
    failures = []

    def run():
        try:
            play(client, path, int(port), kind)
        except BaseException:
            failures.append(traceback.format_exc())

    players = [threading.Thread(target=run) for _ in range(int(threads))]
    for player in players:
        player.start()
    for player in players:
        player.join()
    client.stop()
    client.close()
    if failures:
        sys.exit("\n".join(failures))


main(*sys.argv[1:])
