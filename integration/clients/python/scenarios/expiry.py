"""A session that ends while its client lives: it is notified, its locks pass on, and it can queue again."""

from .stage import Mailbox, Task, eventually


def play(stage):
    ann, bea = stage.client(), stage.client()
    states = Mailbox()
    path = stage.path("lock")
    mine, theirs = ann.Lock(path, "ann"), bea.Lock(path, "bea")
    mine.acquire()
    ann.create(stage.path("ephemeral"), ephemeral=True)
    data = Mailbox()
    ann.DataWatch(path, lambda value, stat: data.put(stat is not None))
    stage.say("watched:", data.take_text())
    waiting = Task(theirs.acquire)
    eventually(lambda: theirs.contenders() == ["ann", "bea"])
    session = ann.client_id
    ann.add_listener(lambda state: states.put(state))

    stage.expire(ann)
    stage.say("bea gets the lock:", waiting.result(), theirs.contenders())
    stage.say("the ephemeral is gone:", bea.exists(stage.path("ephemeral")))
    heard = [states.take_text()]
    while heard[-1] != "LOST":
        heard.append(states.take_text())
    stage.say("ann heard of it:", heard[0], "at first,", heard[-1], "at last, then", states.take_text())
    stage.say("with a new session:", ann.client_id[0] != session[0], ann.connected)
    stage.refused("the old one is closed for good", close_again, stage, session)

    # The recipe still believes in its lock: it is the user's to listen. It queues again with a new node.
    stage.say("ann's lock:", mine.is_acquired, "release:", mine.release())
    again = ann.Lock(path, "ann again")
    waiting = Task(again.acquire)
    eventually(lambda: theirs.contenders() == ["bea", "ann again"])
    stage.say("in the queue:", theirs.contenders())

    # A waiter whose session ends queues again by itself.
    session = ann.client_id
    stage.expire(ann)
    eventually(lambda: ann.connected and ann.client_id[0] != session[0])
    eventually(lambda: theirs.contenders() == ["bea", "ann again"])
    stage.say("in the queue again:", theirs.contenders(), waiting.running())
    theirs.release()
    stage.say("and gets the lock:", waiting.result(), bea.Lock(path).contenders())
    bea.set(path, b"news")
    eventually(lambda: not data.empty())
    stage.say("the DataWatch has outlived two sessions:", data.take_text())


def close_again(stage, session):
    client = stage.client(client_id=session)
    if client.client_id[0] != session[0]:
        raise LookupError("a new session instead")
