"""Ports for programs that have to know each other's before they start."""

import contextlib
import random
import socket

_given = set()


def free_port(host="127.0.0.1"):
    """Below those that the kernel gives to outgoing connections, and never one twice: between its
    choice and its use nobody else takes it by chance."""
    while True:
        port = random.SystemRandom().randrange(10000, 32000)
        if port in _given:
            continue
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind((host, port))
            _given.add(port)
            return port
