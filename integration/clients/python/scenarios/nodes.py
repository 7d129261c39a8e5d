"""Nodes of all kinds: create, read, write, delete, their figures, and what is refused."""


def figures(stat):
    """A node's stat without what depends on the hour and on what else the server does."""
    return "version %d cversion %d aversion %d, %d bytes, %d children, ephemeral %s, written since %s, children since %s, age %s" % (
        stat.version, stat.cversion, stat.aversion, stat.dataLength, stat.numChildren, stat.ephemeralOwner != 0,
        stat.mzxid > stat.czxid, stat.pzxid > stat.czxid, 0 <= stat.mtime - stat.ctime < 60_000)


def play(stage):
    client, other = stage.client(), stage.client()
    node = stage.path("node")

    stage.refused("no parent", client.create, node, b"one")
    stage.say("makepath:", client.create(node, b"one", makepath=True))
    stage.refused("twice", client.create, node, b"two")
    data, stat = other.get(node)
    stage.say("read by another:", data, figures(stat))
    before = stat

    stat = client.set(node, b"three")
    stage.say("written:", figures(stat), "later:", stat.mzxid > before.mzxid, stat.mtime >= before.mtime)
    stage.say("same birth:", stat.czxid == before.czxid, stat.ctime == before.ctime)
    stage.refused("wrong version", client.set, node, b"four", version=7)
    stage.say("right version:", figures(client.set(node, b"", version=1)))
    stage.say("empty:", client.get(node)[0])
    stage.say("100 kB:", figures(client.set(node, b"x" * 100_000)), len(other.get(node)[0]))
    stage.refused("write nothing there", client.set, stage.path("none"), b"")
    stage.refused("read nothing there", client.get, stage.path("none"))
    stage.refused("children of nothing there", client.get_children, stage.path("none"))
    stage.say("nothing there:", client.exists(stage.path("none")))

    path, stat = client.create(node + "/child", b"c", include_data=True)
    stage.say("with stat:", path, figures(stat))
    client.create(node + "/kind\u00e9", "\u00e9\u00e0".encode("utf-8"))
    stage.say("children:", sorted(client.get_children(node)))
    children, stat = client.get_children(node, include_data=True)
    stage.say("children with stat:", len(children), figures(stat))
    stage.say("other letters:", client.get(node + "/kind\u00e9")[0].decode("utf-8"))
    stage.refused("not empty", client.delete, node)
    stage.refused("delete wrong version", client.delete, node + "/child", version=3)
    client.delete(node + "/child", version=0)
    stage.say("deleted:", client.exists(node + "/child"), figures(client.exists(node)))

    queue = stage.path("queue")
    client.ensure_path(queue)
    client.ensure_path(queue)
    for name in ("/a-", "/b-", "/"):
        stage.say("sequence:", client.create(queue + name, sequence=True))
    client.delete(queue + "/b-0000000001")
    client.create(queue + "/plain")
    stage.say("after a delete and a plain node:", client.create(queue + "/a-", sequence=True))
    stage.refused("a name taken", client.create, queue + "/plain")
    stage.say("after a refusal:", client.create(queue + "/a-", sequence=True, ephemeral=True))
    stage.say("queue:", figures(client.exists(queue)))

    flash = stage.path("flash")
    client.create(flash, b"f", ephemeral=True)
    stat = other.exists(flash)
    stage.say("ephemeral:", figures(stat), "of its session:", stat.ephemeralOwner == client.client_id[0])
    stage.refused("child of an ephemeral", client.create, flash + "/child")
    stage.refused("same, in sequence", client.create, flash + "/child", sequence=True)
    stage.say("others may delete it:", other.delete(flash))

    for path in ("/zookeeper", "/"):
        stage.refused("delete " + path, client.delete, path)
    stage.refused("data that is no bytes", client.set, node, "text")
    stage.refused("relative name", client.create, stage.path("node", "..", "x"))
    stage.say("sync:", client.sync(node))
    pending = [client.create_async(stage.path("async-"), b"%d" % i, sequence=True) for i in range(5)]
    stage.say("in order:", [result.get(timeout=10) for result in pending])
    client.delete(node, recursive=True)
    stage.say("deleted with all below:", client.exists(node))
    client.stop()
    stage.say("ephemerals end with their session:", sorted(other.get_children(queue)))
