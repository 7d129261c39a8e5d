"""Election: one leader; the next when that one is done, fails or dies."""

import threading

from .stage import Mailbox, Task, eventually


def play(stage):
    path = stage.path("election")
    names = ("ann", "bea", "cid", "dan")
    clients = {name: stage.client() for name in names}
    elections = {name: client.Election(path, name) for name, client in clients.items()}
    leaders = Mailbox()
    over = {name: threading.Event() for name in names}

    def lead(name):
        leaders.put(name)
        if not over[name].wait(30):
            raise AssertionError("leads for ever")
        if name == "bea":
            raise ValueError("bea fails")

    tasks = {}
    for i, name in enumerate(names, 1):
        tasks[name] = Task(elections[name].run, lead, name)
        eventually(lambda: len(elections["ann"].contenders()) == i)
    stage.say("contenders:", elections["dan"].contenders())
    stage.say("the first leads:", leaders.take_text(), "alone:", leaders.empty())
    over["ann"].set()
    stage.say("it is done:", tasks["ann"].result(), "the next:", leaders.take_text())
    elections["cid"].cancel()
    stage.say("one does not want to any more:", tasks["cid"].result(), elections["dan"].contenders())
    over["bea"].set()
    stage.refused("the leader fails", tasks["bea"].result)
    stage.say("the next:", leaders.take_text(), elections["ann"].contenders())
    tasks["ann"] = Task(elections["ann"].run, lead, "ann")
    eventually(lambda: elections["ann"].contenders() == ["dan", "ann"])
    clients["dan"].stop()
    stage.say("the leader dies:", leaders.take_text())
    stage.say("in all:", tasks["ann"].result(), elections["ann"].contenders())
    stage.refused("nothing to call", elections["ann"].run, "text")
