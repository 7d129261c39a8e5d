"""Barrier: closed until it is removed. DoubleBarrier: in together, out together."""

from .stage import Mailbox, Task, eventually


def play(stage):
    ann, bea, cid = stage.client(), stage.client(), stage.client()
    gate, same = ann.Barrier(stage.path("gate")), bea.Barrier(stage.path("gate"))
    stage.say("no barrier:", same.wait(), same.remove())
    gate.create()
    gate.create()
    stage.say("closed:", same.wait(0.1))
    waiting = [Task(same.wait, 20), Task(cid.Barrier(stage.path("gate")).wait, 20)]
    stage.say("removed:", gate.remove(), "all go on:", [task.result() for task in waiting])
    stage.say("removed twice:", gate.remove())

    path = stage.path("both")
    doors = [client.DoubleBarrier(path, 3, name) for client, name in ((ann, "ann"), (bea, "bea"), (cid, "cid"))]
    steps = Mailbox()

    def through(door, name):
        door.enter()
        steps.put("in", door.participating)
        door.leave()
        steps.put("out", door.participating)

    tasks = [Task(through, door, i) for i, door in enumerate(doors[:2])]
    eventually(lambda: ann.exists(path) and len(ann.get_children(path)) == 2)
    stage.say("two of three wait:", [task.running() for task in tasks], steps.empty())
    stage.tree(ann)
    tasks.append(Task(through, doors[2], 2))
    for task in tasks:
        task.result()
    stage.say("all through:", sorted(steps.take_text() for _ in range(6)), "none left:", steps.empty())
    stage.say("empty:", ann.get_children(path))

    # No member leaves before all leave.
    tasks = [Task(door.enter) for door in doors]
    for task in tasks:
        task.result()
    stage.say("inside:", sorted(ann.get(path + "/" + name)[0] for name in ann.get_children(path) if name != "ready"))
    leaving = [Task(door.leave) for door in doors[:2]]
    eventually(lambda: "ready" not in ann.get_children(path))
    stage.say("two wait for the third:", [task.running() for task in leaving])
    doors[2].leave()
    for task in leaving:
        task.result()
    stage.say("all out:", [door.participating for door in doors], ann.get_children(path))
