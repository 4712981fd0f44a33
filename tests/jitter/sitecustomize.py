"""Python imports this when tests/jitter/run starts a test program: the test itself sleeps around what it sends, receives and starts, and the
daemons and clients that it starts sleep because of the preloaded library."""

import os
import random
import socket
import subprocess
import time

NAPS = os.environ.get("BAILIFF_TEST_NAPS")


def maybe_nap():
    if random.random() < 0.15:
        time.sleep(random.random() * 0.06)


class NappingSocket(socket.socket):
    def sendall(self, *args):
        maybe_nap()
        return super().sendall(*args)

    def recv(self, *args):
        data = super().recv(*args)
        maybe_nap()
        return data


def popen(start):
    def started(self, args, *more, **named):
        if isinstance(args, (list, tuple)) and os.path.basename(str(args[0])) in ("bailiffd", "bailiff"):
            named["env"] = dict(named.get("env") or os.environ, LD_PRELOAD=NAPS)
        maybe_nap()
        start(self, args, *more, **named)
        maybe_nap()
    return started


if NAPS:
    socket.socket = NappingSocket
    subprocess.Popen.__init__ = popen(subprocess.Popen.__init__)
