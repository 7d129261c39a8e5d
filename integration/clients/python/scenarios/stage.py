"""What every scenario has: clients, a transcript, and a line to the test that runs it."""

import os
import queue
import re
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

SOON = 30  # seconds: how long anything that must happen may take on a busy machine
SESSION = 20  # seconds: how long a session outlives its connection

# What differs from run to run: unique ids in names, and sessions.
UNIQUE = re.compile(r"[0-9a-f]{32}")


class Stage:
    """The scene of one scenario: a part of the tree of its own, under root, on the server at hosts."""

    def __init__(self, hosts, root):
        self.hosts = hosts
        self.root = root
        self.clients = []
        self._answers = queue.Queue()
        threading.Thread(target=self._hear, daemon=True).start()

    def _hear(self):
        """Takes the test's answers. Nothing outlives the test: when it is gone, so is the scenario."""
        for line in sys.stdin:
            self._answers.put(line.strip())
        os._exit(3)

    def path(self, *names):
        return "/".join((self.root,) + names)

    def say(self, *words):
        """Writes a line of the transcript. It must be the same in every run, on every server."""
        line = " ".join(str(word) for word in words)
        line = UNIQUE.sub("<unique>", line.replace(self.root, "~"))
        sys.stdout.write(line + "\n")
        sys.stdout.flush()

    def ask(self, what):
        """Has the test do something to the server or the network, and returns when it is done."""
        self.say("! " + what)
        if self._answers.get(timeout=2 * SOON) != "done":
            raise RuntimeError("the test did not " + what)

    def refused(self, what, call, *args, **kwargs):
        """Says with which error a call fails. One that does not fail ends the scenario."""
        try:
            result = call(*args, **kwargs)
        except Exception as error:
            self.say(what + ":", type(error).__name__)
        else:
            raise AssertionError("%s: not refused: %r" % (what, result))

    def client(self, start=True, **options):
        """A client with a session of its own, which ends with the scenario at the latest."""
        options.setdefault("hosts", self.hosts)
        client = KazooClient(
            timeout=SESSION,
            connection_retry={"max_tries": -1, "delay": 0.02, "max_delay": 0.2},
            command_retry={"max_tries": -1, "delay": 0.01, "max_delay": 0.2},
            **options
        )
        self.clients.append(client)
        if start:
            client.start(timeout=SOON)
        return client

    def expire(self, client):
        """Ends a client's session on the server: another client takes it over and closes it."""
        expired = threading.Event()
        client.add_listener(lambda state: expired.set() if state == "LOST" else None)
        session = client.client_id
        deadline = time.monotonic() + SOON
        # The client itself may reconnect in between and push the other one out: then once more.
        while not expired.wait(0.5):
            if time.monotonic() > deadline:
                raise AssertionError("the session does not expire")
            thief = self.client(start=False, client_id=session)
            try:
                thief.start(timeout=SOON)
            except KazooTimeoutError:
                continue
            thief.stop()

    def tree(self, client, path=None):
        """Says what is there from path on: names, data, and whether a node is ephemeral."""
        lines = []
        self._walk(client, path or self.root, lines)
        for line in sorted(lines):
            self.say("  " + line)

    def _walk(self, client, path, lines):
        try:
            data, stat = client.get(path)
            children = client.get_children(path)
        except NoNodeError:
            return
        line = UNIQUE.sub("<unique>", path.replace(self.root, "~"))
        if data:
            line += " = " + UNIQUE.sub("<unique>", data.decode("utf-8", "backslashreplace"))
        if stat.ephemeralOwner:
            line += " (ephemeral)"
        lines.append(line)
        for child in children:
            self._walk(client, path + "/" + child, lines)

    def close(self):
        """Says what the scenario leaves behind when all its sessions have ended, and removes it."""
        for client in self.clients:
            client.stop()
            client.close()
        cleaner = self.client()
        self.say("left behind:")
        self.tree(cleaner)
        cleaner.delete(self.root, recursive=True)
        cleaner.stop()
        cleaner.close()


class Mailbox:
    """What callbacks report, in the order in which they were called."""

    def __init__(self):
        self.queue = queue.Queue()

    def put(self, *words):
        self.queue.put(words)

    def take(self):
        """The next report, waited for."""
        return self.queue.get(timeout=SOON)

    def take_text(self):
        return " ".join(str(word) for word in self.take())

    def empty(self):
        return self.queue.empty()


class Task(threading.Thread):
    """A call that runs beside the scenario."""

    def __init__(self, call, *args, **kwargs):
        super().__init__(daemon=True)
        self._work = lambda: call(*args, **kwargs)
        self._result = None
        self._error = None
        self.start()

    def run(self):
        try:
            self._result = self._work()
        except BaseException as error:
            self._error = error

    def running(self):
        return self.is_alive()

    def result(self):
        """What the call returned, waited for; or its error, raised."""
        self.join(SOON)
        if self.is_alive():
            raise AssertionError("still running after %d seconds" % SOON)
        if self._error is not None:
            raise self._error
        return self._result


class Room:
    """Counts who is inside at once."""

    def __init__(self):
        self._lock = threading.Lock()
        self.inside = 0
        self.most = 0
        self.entries = 0

    def __enter__(self):
        with self._lock:
            self.inside += 1
            self.entries += 1
            self.most = max(self.most, self.inside)

    def __exit__(self, *_):
        with self._lock:
            self.inside -= 1


def eventually(condition):
    """Waits until the condition holds."""
    deadline = time.monotonic() + SOON
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("not true after %d seconds" % SOON)
        time.sleep(0.005)
