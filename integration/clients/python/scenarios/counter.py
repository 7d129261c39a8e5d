"""Counter: no update is lost, whole numbers and others, Curator's format too."""

from .stage import Task


def play(stage):
    clients = [stage.client() for _ in range(3)]
    client = clients[0]
    client.ensure_path(stage.root)
    counter = client.Counter(stage.path("whole"))
    stage.say("at first:", counter.value)
    counter += 5
    counter -= 2
    stage.say("then:", counter.value, counter.pre_value, counter.post_value, client.get(stage.path("whole"))[0])
    real = client.Counter(stage.path("real"), default=1.0)
    real += 2.5
    stage.say("real:", real.value, client.get(stage.path("real"))[0])
    stage.refused("of another type", lambda: real + "x")
    stage.refused("with text in it", lambda: client.Counter(stage.path("real")).value)
    curator = client.Counter(stage.path("curator"), support_curator=True, default=7)
    curator += 3
    stage.say("as Curator writes it:", curator.value, client.get(stage.path("curator"))[0])

    def count(client):
        counter = client.Counter(stage.path("shared"))
        for _ in range(10):
            counter += 1

    for task in [Task(count, client) for client in clients]:
        task.result()
    stage.say("three clients, ten times each:", client.Counter(stage.path("shared")).value,
              "in as many versions:", client.exists(stage.path("shared")).version)
