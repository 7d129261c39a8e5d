"""TreeCache: a copy of a part of the tree that follows it."""

from kazoo.recipe.cache import TreeCache, TreeEvent

from .stage import Mailbox

NAMES = {value: name for name, value in vars(TreeEvent).items() if isinstance(value, int)}


def play(stage):
    client, other = stage.client(), stage.client()
    other.ensure_path(stage.path("tree", "a"))
    events = Mailbox()
    cache = TreeCache(client, stage.path("tree"))

    def heard(event):
        node = event.event_data
        events.put(NAMES[event.event_type], node.path if node else "", node.data if node else "")

    cache.listen(heard)
    cache.start()
    for _ in range(3):
        stage.say("heard:", events.take_text())
    changes = [
        lambda: other.create(stage.path("tree", "a", "b"), b"1"),
        lambda: other.set(stage.path("tree", "a", "b"), b"2"),
        lambda: other.create(stage.path("tree", "c"), b"3", ephemeral=True),
        lambda: other.delete(stage.path("tree", "a", "b")),
        lambda: other.stop(),
    ]
    for i, change in enumerate(changes):
        change()
        stage.say("heard:", events.take_text())
        if i == 2:
            stage.say("in the cache:", sorted(cache.get_children(stage.path("tree"))), cache.get_data(stage.path("tree", "a", "b")).data)
    stage.say("in the cache:", sorted(cache.get_children(stage.path("tree"))), cache.get_data(stage.path("tree", "c")))

    # Changes while the connection is lost are not missed.
    watcher = stage.client()
    stage.ask("cut")
    stage.say("heard:", events.take_text(), "then", events.take_text())
    watcher.retry(watcher.create, stage.path("tree", "d"), b"4")
    stage.say("heard:", events.take_text())
    cache.close()
