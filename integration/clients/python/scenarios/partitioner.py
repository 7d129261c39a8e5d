"""SetPartitioner: things shared out among those who are here, anew whenever somebody comes or goes."""

from .stage import eventually

THINGS = tuple("pqrst")


def play(stage):
    def join(name):
        client = stage.client()
        return client, client.SetPartitioner(stage.path("share"), THINGS, identifier=name, time_boundary=0.2, max_reaction_time=0.1)

    def settle(*partitioners):
        def settled():
            for one in partitioners:
                if one.failed:
                    raise AssertionError("failed")
                if one.release:
                    one.release_set()
            return all(one.acquired for one in partitioners) and sum(len(list(one)) for one in partitioners) == len(THINGS)
        eventually(settled)

    first, ann = join("ann")
    settle(ann)
    stage.say("alone, all of it:", list(ann))
    second, bea = join("bea")
    settle(ann, bea)
    shares = sorted([sorted(ann), sorted(bea)], key=len)
    stage.say("two share:", [len(share) for share in shares], "all of it:", sorted(sum(shares, [])))
    second.stop()
    settle(ann)
    stage.say("one dies, the other has all:", sorted(ann))
    ann.finish()
    stage.say("done:", ann.failed, list(ann))
