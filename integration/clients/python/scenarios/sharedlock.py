"""ReadLock and WriteLock: readers together, a writer alone, no reader overtakes a writer."""

import threading

from .stage import Room, Task, eventually


def play(stage):
    path = stage.path("lock")
    clients = [stage.client() for _ in range(4)]
    reader, reader2, reader3 = (client.ReadLock(path, "reader%d" % i) for i, client in enumerate(clients[:3], 1))
    writer = clients[3].WriteLock(path, "writer")

    stage.say("two readers:", reader.acquire(timeout=20), reader2.acquire(timeout=20))
    stage.say("a writer, not waiting:", writer.acquire(blocking=False))
    waiting = Task(writer.acquire, timeout=20)
    eventually(lambda: len(clients[0].get_children(path)) == 3)
    stage.say("a reader behind it, not waiting:", reader3.acquire(blocking=False))
    behind = Task(reader3.acquire, timeout=20)
    eventually(lambda: len(clients[0].get_children(path)) == 4)
    stage.say("as a writer sees it:", writer.contenders())
    stage.say("as a reader sees it:", reader.contenders())
    stage.tree(clients[0])
    reader.release()
    stage.say("one reader leaves, the writer waits:", waiting.running())
    reader2.release()
    stage.say("the other too, the writer has it:", waiting.result(), "the reader waits:", behind.running())
    stage.refused("a reader with little patience", clients[0].ReadLock(path).acquire, timeout=0.1)
    writer.release()
    stage.say("and now the reader:", behind.result())
    stage.say("a plain lock stands aside for readers:", clients[0].Lock(path).acquire(blocking=False))
    reader3.release()

    # Readers are inside together; writers are not.
    together = threading.Barrier(3)
    room = Room()

    def read(client):
        for _ in range(5):
            with client.ReadLock(stage.path("room")):
                with room:
                    together.wait(30)

    for task in [Task(read, client) for client in clients[:3]]:
        task.result()
    stage.say(room.entries, "reads, at most", room.most, "at once")
    room = Room()

    def write(client):
        lock = client.WriteLock(stage.path("room"))
        for _ in range(5):
            with lock:
                with room:
                    client.exists(stage.root)

    for task in [Task(write, client) for client in clients[:3]]:
        task.result()
    stage.say(room.entries, "writes, at most", room.most, "at once")
