"""TCP ports that nobody else takes between their choice and their use, nor while a server restarts."""

import socket


def reserve_port(test):
    """
    A loopback port for a server that sets SO_REUSEADDR, as all do; the reservation ends with the test.

    A port that is bound here is neither given to anybody who asks for a free one, nor to an outgoing connection: a client that
    tries again and again to reach a server that is away could even be connected to itself.
    """
    reservation = socket.socket()
    test.addCleanup(reservation.close)
    reservation.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    reservation.bind(("127.0.0.1", 0))
    return reservation.getsockname()[1]
