"""Several changes at once, all or none."""

from .stage import Mailbox


def results(result):
    texts = []
    for one in result:
        if isinstance(one, Exception):
            texts.append(type(one).__name__)
        elif hasattr(one, "version"):
            texts.append("version %d" % one.version)
        else:
            texts.append(str(one))
    return ", ".join(texts)


def play(stage):
    client = stage.client()
    client.ensure_path(stage.path("old"))
    base = client.exists(stage.root)

    deal = client.transaction()
    deal.check(stage.path("old"), 0)
    deal.create(stage.path("new"), b"n")
    deal.create(stage.path("new", "in-"), b"1", sequence=True)
    deal.create(stage.path("new", "in-"), b"2", sequence=True, ephemeral=True)
    deal.set_data(stage.path("old"), b"changed", version=0)
    deal.set_data(stage.path("old"), b"again")
    deal.delete(stage.path("new", "in-0000000000"))
    stage.say("all:", results(deal.commit()))
    stage.tree(client)
    births = {client.exists(stage.path(name)).czxid for name in ("new", "new/in-0000000001")}
    stage.say("one moment:", births == {client.exists(stage.path("old")).mzxid})
    stage.refused("committed twice", deal.commit)

    seen = Mailbox()
    client.get_children(stage.root, watch=lambda event: seen.put(event.type, event.path))
    client.get(stage.path("old"), watch=lambda event: seen.put(event.type, event.path))
    deal = client.transaction()
    deal.set_data(stage.path("old"), b"never")
    deal.create(stage.path("never"))
    deal.check(stage.path("old"), 99)
    deal.delete(stage.path("new"))
    stage.say("none:", results(deal.commit()))
    stage.tree(client)

    deal = client.transaction()
    deal.delete(stage.path("nothing"))
    deal.create(stage.path("never"))
    stage.say("the first fails:", results(deal.commit()))
    deal = client.transaction()
    deal.create(stage.path("never"))
    deal.create(stage.path("never"))
    stage.say("the last fails:", results(deal.commit()))
    deal = client.transaction()
    deal.delete(stage.path("new"))
    stage.say("not empty:", results(deal.commit()))
    stage.say("nothing seen of it:", seen.empty())

    with client.transaction() as deal:
        deal.create(stage.path("with"), b"w")
        deal.set_data(stage.path("old"), b"with")
    stage.say("seen in this order:", seen.take_text(), "then", seen.take_text())
    stage.say("the root:", client.exists(stage.root).cversion - base.cversion, "changes of its children")
    stage.say("an empty one:", results(client.transaction().commit()))

    # A sequence number is taken by what happens alone.
    deal = client.transaction()
    deal.create(stage.path("new", "in-"), sequence=True)
    deal.check(stage.path("old"), 99)
    stage.say("undone:", results(deal.commit()))
    stage.say("the next number:", client.create(stage.path("new", "in-"), sequence=True))
