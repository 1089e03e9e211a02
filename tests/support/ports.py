"""TCP ports that nobody else takes between their choice and their use, nor while a server
restarts."""

import socket


def claim_port():
    """
    A socket that holds a free loopback port until it is closed, for a server that sets
    SO_REUSEADDR, as all do: since it does not listen, the server can bind the port all the same.

    A port that is bound here is neither given to anybody who asks for a free one, nor to an
    outgoing connection: a client that tries again and again to reach a server that is away could
    even be connected to itself.
    """
    claim = socket.socket()
    claim.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    claim.bind(("127.0.0.1", 0))
    return claim


def reserve_port(test):
    """The number of a port that is claimed until the test ends."""
    claim = claim_port()
    test.addCleanup(claim.close)
    return claim.getsockname()[1]
