"""NonBlockingLease and MultiNonBlockingLease: by the clocks of the clients, which the scenario sets."""

import datetime


def play(stage):
    ann, bea, cid = stage.client(), stage.client(), stage.client()
    now = datetime.datetime(2020, 1, 1)
    hour = datetime.timedelta(hours=1)

    def ask(client, name, after=0):
        clock = lambda: now + datetime.timedelta(minutes=after)
        return bool(client.NonBlockingLease(stage.path("lease"), hour, identifier=name, utcnow=clock))

    stage.say("ann:", ask(ann, "ann"), "bea:", ask(bea, "bea"), "ann renews:", ask(ann, "ann", 30))
    ann.stop()
    stage.say("ann is gone, her lease is not:", ask(bea, "bea", 80))
    stage.say("until its hour is over:", ask(bea, "bea", 91))
    stage.tree(bea)

    def ask_many(client, name):
        return bool(client.MultiNonBlockingLease(2, stage.path("many"), hour, identifier=name, utcnow=lambda: now))

    stage.say("two of two:", ask_many(bea, "bea"), ask_many(cid, "cid"), "a third:", ask_many(bea, "dan"))
