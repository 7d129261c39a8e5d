"""A connection that is lost and comes back, and a server that restarts: the session and what it has set go on."""

from kazoo.security import CREATOR_ALL_ACL

from .stage import Mailbox, Task, eventually


def play(stage):
    client = stage.client(auth_data=[("digest", "ann:pw")])
    states, seen = Mailbox(), Mailbox()
    client.ensure_path(stage.root)
    client.add_listener(lambda state: states.put(state))
    session = client.client_id
    node = stage.path("node")
    client.create(stage.path("mine"), ephemeral=True)
    lock = client.Lock(stage.path("lock"), "ann")
    lock.acquire()
    client.DataWatch(node, lambda value, stat: seen.put("data", value))
    stage.say("seen:", seen.take_text())

    for trouble in ("cut", "restart"):
        stage.ask(trouble)
        stage.say("told:", states.take_text(), "then", states.take_text())
        stage.say("same session:", client.client_id == session)
        eventually(lambda: client.connected)
        stage.say("its nodes:", sorted(client.retry(client.get_children, stage.root)))
        stage.say("still holds the lock:", lock.contenders(), client.Lock(stage.path("lock")).acquire(blocking=False))

        # What it watches it still hears of, and who it is is still known.
        if trouble == "cut":
            client.create(node, b"after " + trouble.encode(), acl=None)
        else:
            client.set(node, b"after " + trouble.encode())
        stage.say("seen:", seen.take_text())
        secret = stage.path("secret")
        if trouble == "cut":
            client.create(secret, b"s", acl=CREATOR_ALL_ACL)
        stage.say("known by name:", client.get(secret)[0])

    # A waiter does not lose its place.
    other = stage.client()
    waiting = Task(other.Lock(stage.path("lock"), "bea").acquire)
    eventually(lambda: lock.contenders() == ["ann", "bea"])
    stage.ask("cut")
    eventually(lambda: client.connected and other.connected)
    stage.say("told:", states.take_text(), "then", states.take_text())
    stage.say("the queue:", lock.contenders(), waiting.running())
    lock.release()
    stage.say("the waiter has it:", waiting.result())

    # While no client is connected nothing is answered; requests made meanwhile are done afterwards.
    stage.ask("network down")
    stage.say("told:", states.take_text())
    later = Task(client.retry, client.get, node)
    stage.say("asked meanwhile:", later.running(), client.connected)
    stage.ask("network up")
    stage.say("told:", states.take_text(), "answered:", later.result()[0])
    stage.say("the other is back too:", other.retry(other.get, node)[0])
    client.delete(stage.path("secret"))
