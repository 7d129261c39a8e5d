"""A connect string with a path: the client sees that part of the tree alone."""

from .stage import Mailbox, Task, eventually


def play(stage):
    client = stage.client()
    client.ensure_path(stage.path("inner"))
    inner = stage.client(hosts=stage.hosts + stage.path("inner"))
    seen = Mailbox()
    stage.say("its root:", inner.get_children("/"), inner.chroot)
    stage.say("not there:", inner.exists("/a/b", watch=lambda event: seen.put(event.type, event.path)))
    stage.say("created:", inner.create("/a/b", b"x", makepath=True))
    stage.say("seen:", seen.take_text())
    stage.say("in sequence:", inner.create("/a/s-", sequence=True))
    stage.say("from outside:", client.get(stage.path("inner", "a", "b"))[0])
    with inner.transaction() as deal:
        deal.create("/t")
        deal.create("/t/u")
    stage.say("in a transaction:", inner.get_children("/t"))
    inner.get_children("/", watch=lambda event: seen.put(event.type, event.path))
    client.create(stage.path("inner", "from-outside"))
    stage.say("seen:", seen.take_text())

    lock, same = inner.Lock("/lock", "inner"), client.Lock(stage.path("inner", "lock"), "outer")
    lock.acquire()
    waiting = Task(same.acquire)
    eventually(lambda: lock.contenders() == ["inner", "outer"])
    stage.say("one lock for both:", same.contenders(), waiting.running())
    lock.release()
    stage.say("passed on:", waiting.result())

    deep = stage.client(hosts=stage.hosts + stage.path("not", "there"))
    stage.say("a root that is not there:", deep.exists("/"))
    stage.refused("nothing to be created in it", deep.create, "/x")
    client.ensure_path(stage.path("not", "there"))
    stage.say("until it is made:", deep.create("/x"))
    inner.delete("/a", recursive=True)
    stage.say("left:", sorted(inner.get_children("/")))
