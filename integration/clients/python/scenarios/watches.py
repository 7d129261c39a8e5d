"""Being told of changes: by plain watches once, by DataWatch and ChildrenWatch for good."""

from .stage import Mailbox


def play(stage):
    client, other = stage.client(), stage.client()
    other.ensure_path(stage.root)
    seen = Mailbox()

    def watch(event):
        seen.put(event.type, event.state, event.path)

    node = stage.path("node")
    stage.say("not there:", client.exists(node, watch=watch))
    other.create(node, b"1")
    stage.say("exists:", seen.take_text())
    other.set(node, b"2")
    client.get(node, watch=watch)
    client.get_children(node, watch=watch)
    other.set(node, b"3")
    stage.say("get:", seen.take_text())
    other.set(node, b"4")
    other.create(node + "/child")
    stage.say("once only, then children:", seen.take_text())
    client.exists(node, watch=watch)
    client.get_children(stage.root, watch=watch)
    client.exists(node + "/child", watch=watch)
    other.delete(node + "/child")
    stage.say("deleted:", seen.take_text())
    other.delete(node)
    stage.say("deleted:", seen.take_text(), "then", seen.take_text())
    stage.refused("a watch on what is not there", client.get, node, watch=watch)
    other.create(node)
    other.delete(node)
    client.sync(node)
    client.exists(stage.root)
    stage.say("left none:", seen.empty())

    # The same function on the same node is called once per change, and the answer to a read comes after the news.
    other.create(node, b"5")
    for _ in range(3):
        client.get(node, watch=watch)
    other.set(node, b"6")
    stage.say("three times the same:", seen.take_text(), "and the new data:", client.get(node)[0])
    other.delete(node)

    data = Mailbox()

    @client.DataWatch(node)
    def on_data(value, stat, event):
        data.put(value, stat.version if stat else None, event.type if event else None)
        return value != b"stop"

    stage.say("DataWatch, not there:", data.take_text())
    for value in (b"a", b"b"):
        if value == b"a":
            other.create(node, value)
        else:
            other.set(node, value)
        stage.say("DataWatch:", data.take_text())
    other.delete(node)
    stage.say("DataWatch:", data.take_text())
    other.create(node, b"stop")
    stage.say("DataWatch:", data.take_text())
    other.set(node, b"unheard")

    children = Mailbox()
    parent = stage.path("parent")
    other.ensure_path(parent)

    @client.ChildrenWatch(parent, send_event=True)
    def on_children(names, event):
        children.put(sorted(names), event.type if event else None)
        return "stop" not in names

    stage.say("ChildrenWatch:", children.take_text())
    for name in ("x", "y"):
        other.create(parent + "/" + name)
        stage.say("ChildrenWatch:", children.take_text())
    other.set(parent + "/x", b"data is no matter")
    other.delete(parent + "/x")
    stage.say("ChildrenWatch:", children.take_text())
    other.create(parent + "/stop")
    stage.say("ChildrenWatch:", children.take_text())
    other.create(parent + "/z")
    client.sync(parent)
    client.exists(parent)
    stage.say("stopped ones are quiet:", data.empty(), children.empty())

    # A session's end deletes its nodes, and other clients are notified.
    other.create(parent + "/short", ephemeral=True)
    client.exists(parent + "/short", watch=watch)
    other.stop()
    stage.say("with its session:", seen.take_text())
