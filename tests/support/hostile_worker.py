"""A worker of the ZooKeeper backend that has been taken over: it speaks the agent's frames, reports
a connection, and then does what its mode demands. BERTH_LIBEXECDIR leads the agent to it.

    berth-zookeeper 3     the mode is in the file `mode` next to it, which it reads at its start
"""

import os
import pathlib
import socket
import struct
import sys
import threading
import time

SESSION, EVENT, LOG = 4, 6, 7
CONNECTED = 1
MANY = 2000  # frames in a piece


def frame(kind, body):
    return struct.pack(">IB", 1 + len(body), kind) + body


def text(words):
    return struct.pack(">I", len(words)) + words + b"\0"


def session(state):
    return frame(SESSION, struct.pack(">BQ16sI", state, 0x1234, b"p" * 16, 60000)
        + text(b"127.0.0.1:1") + text(b"127.0.0.1:1"))


def lines():
    return b"".join(frame(LOG, b"\2" + text(b"line %d of many" % number))
        for number in range(MANY))


def events():
    return frame(EVENT, b"\1\1" + text(b"/users/devteam")) * MANY


def connections():
    return session(CONNECTED) * MANY


def write_lines():
    while True:
        os.write(2, b"a library's line\n" * 1000)


def talk(agent):
    """A frame now and then: nobody could say that it is silent."""
    while True:
        agent.sendall(frame(LOG, b"\3" + text(b"still here")))
        time.sleep(0.01)


def main():
    agent = socket.socket(fileno=3)
    mode = (pathlib.Path(sys.argv[0]).parent / "mode").read_text(encoding="ascii")
    agent.sendall(session(CONNECTED))
    if mode == "talks":
        talk(agent)
    if mode == "writes":
        threading.Thread(target=write_lines, daemon=True).start()
    piece = {"lines": lines, "events": events, "connections": connections}.get(mode, bytes)()
    while piece:
        agent.sendall(piece)
    while agent.recv(65536):  # an honest one, but for its silence
        pass


if __name__ == "__main__":
    main()
