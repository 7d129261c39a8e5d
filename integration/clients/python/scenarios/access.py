"""Who may do what: ACLs, credentials, and what they hide."""

from kazoo import security

from .stage import eventually


def acls(client, path):
    entries, stat = client.get_acls(path)
    texts = ["%s:%s:%d" % (entry.id.scheme, entry.id.id, entry.perms) for entry in entries]
    return texts, "aversion %d" % stat.aversion


def play(stage):
    alice, bob = stage.client(), stage.client()
    alice.ensure_path(stage.root)
    stage.say("open:", *acls(alice, stage.root))

    own = stage.path("own")
    stage.refused("auth without credentials", alice.create, own, acl=[security.make_acl("auth", "", all=True)])
    stage.say("add auth:", alice.add_auth("digest", "alice:secret"))
    alice.create(own, b"treasure", acl=security.CREATOR_ALL_ACL)
    stage.say("auth becomes digest:", *acls(alice, own))
    stage.refused("bob reads", bob.get, own)
    stage.refused("bob writes", bob.set, own, b"")
    stage.refused("bob creates", bob.create, own + "/child")
    stage.refused("bob lists", bob.get_children, own)
    stage.refused("bob looks at the ACL", bob.get_acls, own)
    stage.say("bob knows it is there:", bob.exists(own) is not None)

    readable = stage.path("readable")
    everyone = security.make_acl("world", "anyone", read=True)
    mine = security.make_digest_acl("alice", "secret", all=True)
    alice.create(readable, b"news", acl=[mine, everyone])
    stage.say("bob reads what is for all:", bob.get(readable)[0])
    stage.say("bob sees no digest:", *acls(bob, readable))
    stage.say("alice sees it:", *acls(alice, readable))
    stage.refused("bob changes the ACL", bob.set_acls, readable, [everyone])
    alice.create(readable + "/child")
    stage.refused("bob deletes below", bob.delete, readable + "/child")
    stage.refused("wrong ACL version", alice.set_acls, readable, [mine], version=5)
    stage.say("right one:", alice.set_acls(readable, [mine], version=0).aversion)
    stage.refused("now bob cannot", bob.get, readable)
    stage.refused("empty ACL of no scheme", alice.set_acls, readable, [security.make_acl("nonsense", "x", all=True)])

    bob.add_auth("digest", "alice:wrong")
    stage.refused("the wrong secret", bob.get, own)
    bob.add_auth("digest", "alice:secret")
    stage.say("the right one:", bob.get(own)[0])

    local = stage.path("local")
    alice.create(local, b"l", acl=[security.make_acl("ip", "127.0.0.1", read=True), mine])
    carol = stage.client(auth_data=[("digest", "carol:pw")], default_acl=security.CREATOR_ALL_ACL)
    stage.say("by address:", carol.get(local)[0])
    carol.create(stage.path("carols"), b"c")
    stage.say("default ACL:", [text.split(":")[1] for text in acls(carol, stage.path("carols"))[0]])
    stage.refused("not alice's", alice.get, stage.path("carols"))
    remote = stage.path("remote")
    alice.create(remote, b"r", acl=[security.make_acl("ip", "10.0.0.0/8", read=True), mine])
    stage.refused("from another network", carol.get, remote)

    mallory = stage.client()
    stage.refused("a scheme the server does not know", mallory.add_auth, "nonsense", "x")
    eventually(lambda: mallory.state == "LOST")
    stage.say("and that ends the session:", mallory.state)
    for path in (own, readable, local, remote):
        alice.delete(path, recursive=True)
    carol.delete(stage.path("carols"))
