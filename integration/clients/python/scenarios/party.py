"""Party and ShallowParty: who is here."""


def play(stage):
    ann, bea = stage.client(), stage.client()
    for kind in ("Party", "ShallowParty"):
        path = stage.path(kind)
        first, second = getattr(ann, kind)(path, "ann"), getattr(bea, kind)(path, "bea")
        stage.say(kind, "empty:", len(first), list(first))
        first.join()
        second.join()
        second.join()
        stage.say(kind, "both:", len(first), sorted(first), sorted(second), second.participating)
        stage.tree(ann, path)
        stage.say(kind, "one leaves:", first.leave(), list(second), first.participating)
        stage.say(kind, "leaves twice:", first.leave())
        first.join()
    bea.stop()
    stage.say("one dies:", [list(getattr(ann, kind)(stage.path(kind))) for kind in ("Party", "ShallowParty")])
