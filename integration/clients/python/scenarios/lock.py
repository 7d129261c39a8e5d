"""Lock: one holder, first come first served, and every way not to get it."""

from kazoo.exceptions import CancelledError, LockTimeout

from .stage import Room, Task, eventually


def play(stage):
    path = stage.path("lock")
    ann, bea, cid = stage.client(), stage.client(), stage.client()
    first, second, third = ann.Lock(path, "ann"), bea.Lock(path, "bea"), cid.Lock(path, "cid")

    stage.say("ann:", first.acquire(), first.is_acquired)
    stage.say("ann again, not waiting:", first.acquire(blocking=False))
    stage.say("bea, not waiting:", second.acquire(blocking=False), second.is_acquired)
    stage.say("contenders:", first.contenders())
    stage.refused("bea, with patience for a moment", second.acquire, timeout=0.2)
    stage.say("contenders:", first.contenders())

    waiting = Task(second.acquire)
    eventually(lambda: first.contenders() == ["ann", "bea"])
    later = Task(third.acquire, timeout=20)
    eventually(lambda: first.contenders() == ["ann", "bea", "cid"])
    stage.say("in the queue:", first.contenders(), waiting.running(), later.running())
    stage.tree(ann)
    stage.say("ann releases:", first.release(), first.is_acquired)
    stage.say("bea gets it:", waiting.result(), second.is_acquired, "cid still waits:", later.running())
    stage.say("ann releases twice:", first.release())

    third.cancel()
    stage.refused("cid gives up", later.result)
    stage.say("contenders:", first.contenders())
    later = Task(third.acquire)
    eventually(lambda: first.contenders() == ["bea", "cid"])
    bea.stop()
    stage.say("bea dies, cid gets it:", later.result(), first.contenders())

    # In the middle of the queue somebody leaves: the one behind keeps waiting.
    waiting = Task(first.acquire)
    eventually(lambda: third.contenders() == ["cid", "ann"])
    dan = stage.client()
    fourth = dan.Lock(path, "dan")
    last = Task(fourth.acquire)
    eventually(lambda: third.contenders() == ["cid", "ann", "dan"])
    first.cancel()
    stage.refused("ann leaves the queue", waiting.result)
    stage.say("dan waits behind cid:", last.running(), third.contenders())
    third.release()
    stage.say("dan gets it:", last.result())
    with_errors = (CancelledError, LockTimeout)
    stage.say("errors have names:", [error.__name__ for error in with_errors])
    fourth.release()

    permanent = dan.Lock(stage.path("permanent"), "dan")
    permanent.acquire(ephemeral=False)
    dan.stop()
    stage.say("not ephemeral, it stays:", ann.Lock(stage.path("permanent"), "ann").acquire(blocking=False))

    room = Room()
    clients = [stage.client() for _ in range(4)]

    def enter(client):
        lock = client.Lock(stage.path("room"), "one")
        for _ in range(10):
            with lock:
                with room:
                    count = int(client.get(stage.path("count"))[0])
                    client.set(stage.path("count"), b"%d" % (count + 1))

    ann.create(stage.path("count"), b"0")
    for task in [Task(enter, client) for client in clients]:
        task.result()
    stage.say("four clients, ten times each:", room.entries, "entries, at most", room.most, "at once")
    stage.say("no update lost:", ann.get(stage.path("count"))[0])
