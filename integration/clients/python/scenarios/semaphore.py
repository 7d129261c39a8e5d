"""Semaphore: so many holders and no more."""

from .stage import Room, Task, eventually


def play(stage):
    path = stage.path("pool")
    clients = [stage.client() for _ in range(4)]
    ann, bea, cid = (client.Semaphore(path, name, max_leases=2) for client, name in zip(clients, ("ann", "bea", "cid")))

    stage.say("two of two:", ann.acquire(), bea.acquire())
    stage.say("holders:", sorted(ann.lease_holders()))
    stage.say("a third, not waiting:", cid.acquire(blocking=False), cid.is_acquired)
    stage.refused("a third, for a moment", cid.acquire, timeout=0.2)
    stage.refused("another size", clients[3].Semaphore(path, max_leases=3).acquire)
    waiting = Task(cid.acquire)
    eventually(lambda: clients[3].exists(path + "-__lock__") and clients[3].get_children(path + "-__lock__"))
    stage.tree(clients[3])
    stage.say("one leaves:", ann.release(), "the third has its place:", waiting.result(), sorted(bea.lease_holders()))
    waiting = Task(ann.acquire)
    eventually(lambda: clients[3].get_children(path + "-__lock__"))
    ann.cancel()
    stage.refused("cancelled", waiting.result)
    waiting = Task(ann.acquire)
    eventually(lambda: clients[3].get_children(path + "-__lock__"))
    clients[1].stop()
    stage.say("one dies, its place is taken:", waiting.result(), sorted(cid.lease_holders()))
    ann.release()
    cid.release()

    room = Room()
    workers = [stage.client() for _ in range(4)]

    def work(client):
        pool = client.Semaphore(stage.path("room"), max_leases=2)
        for _ in range(6):
            with pool:
                with room:
                    client.exists(stage.root)

    for task in [Task(work, client) for client in workers]:
        task.result()
    stage.say(room.entries, "entries, never more than two:", room.most <= 2)
