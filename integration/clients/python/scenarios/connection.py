"""A connection's states, the server's version, and whose session it is."""

from .stage import Mailbox


def play(stage):
    states = Mailbox()
    client = stage.client(start=False)
    client.add_listener(states.put)
    stage.say("before:", client.state, client.connected)
    client.start(timeout=15)
    stage.say("started:", states.take_text(), client.connected)

    version = client.server_version()
    stage.say("version has", len(version), "numbers, the first is", version[0])
    stage.say("at least 3.4:", version >= (3, 4))
    stage.say("ruok:", client.command(b"ruok"))
    stage.say("isro:", client.command(b"isro"))
    stage.say("srvr:", [line.split(":")[0] for line in client.command(b"srvr").splitlines()])
    stage.say("mode:", [line for line in client.command(b"srvr").splitlines() if line.startswith("Mode")])

    session, password = client.client_id
    stage.say("session:", session != 0, "password of", len(password), "bytes")
    client.ensure_path(stage.root)
    client.create(stage.path("mine"), ephemeral=True)
    stage.say("owner is the session:", client.exists(stage.path("mine")).ephemeralOwner == session)

    other = stage.client()
    stage.say("another client has another session:", other.client_id[0] != session)
    stranger = stage.client(client_id=(session, b"x" * 16))
    stage.say("wrong password gets a new session:", stranger.client_id[0] not in (session, other.client_id[0]))
    stranger = stage.client(client_id=(12345, b"y" * 16))
    stage.say("unknown session gets a new one:", stranger.client_id[0] != 12345)
    stage.say("the first is untouched:", client.exists(stage.path("mine")) is not None, states.empty())

    client.stop()
    stage.say("stopped:", states.take_text(), client.connected)
    stage.say("the server has forgotten it:", other.exists(stage.path("mine")) is None)
    stage.refused("a stopped client", client.get, stage.root)
    client.start(timeout=15)
    stage.say("started again:", states.take_text(), "new session:", client.client_id[0] != session)

    old = other.client_id[0]
    other.restart()
    stage.say("restarted:", other.state, "new session:", other.client_id[0] != old)
