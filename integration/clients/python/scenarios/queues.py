"""Queue and LockingQueue: by priority, then first in first out, nothing twice."""

from .stage import Task, eventually


def play(stage):
    ann, bea = stage.client(), stage.client()
    queue, other = ann.Queue(stage.path("queue")), bea.Queue(stage.path("queue"))
    stage.say("empty:", len(queue), queue.get())
    for value, priority in ((b"one", 100), (b"two", 100), (b"urgent", 1), (b"three", 100), (b"never", 999)):
        queue.put(value, priority)
    stage.say("length:", len(other))
    stage.tree(ann)
    stage.say("in order:", [other.get() for _ in range(4)], len(other))
    stage.refused("no bytes", queue.put, "text")
    stage.refused("no priority", queue.put, b"x", 1000)

    for number in range(20):
        queue.put(b"%d" % number)
    taken = []

    def take(queue):
        while True:
            value = queue.get()
            if value is None:
                return
            taken.append(value)

    for task in [Task(take, q) for q in (ann.Queue(queue.path), bea.Queue(queue.path))]:
        task.result()
    stage.say("two take all, nothing twice:", len(taken), len(set(taken)))

    queue, other = ann.LockingQueue(stage.path("locking")), bea.LockingQueue(stage.path("locking"))
    stage.say("nothing within a moment:", queue.get(timeout=0.1), queue.holds_lock(), queue.consume())
    queue.put_all([b"a", b"b"])
    queue.put(b"first", 5)
    stage.say("ann:", queue.get(5), queue.holds_lock(), "bea:", other.get(5), other.holds_lock(), len(other))
    stage.say("ann still has it:", queue.get(5))
    stage.tree(ann, stage.path("locking"))
    stage.say("ann is done:", queue.consume(), len(queue), queue.holds_lock())
    stage.say("bea gives it back:", other.release(), "ann takes it:", queue.get(5))
    waiting = Task(other.get, 20)
    stage.say("bea gets the last:", waiting.result())
    third = stage.client().LockingQueue(stage.path("locking"))
    waiting = Task(third.get, 20)
    eventually(lambda: len(third) == 2)
    bea.stop()
    stage.say("bea dies, another gets hers:", waiting.result())
    waiting = Task(ann.LockingQueue(stage.path("locking")).get, 20)
    third.put(b"late")
    stage.say("one who waits gets what comes:", waiting.result())
    stage.say("done:", third.consume(), queue.consume(), len(queue))
