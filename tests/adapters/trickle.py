"""A server on loopback whose answers never come to an end."""

from __future__ import annotations

import socket
import threading


class Trickle:
    """A server that answers one byte at a time, and never comes to an end."""

    def __init__(self, start: bytes) -> None:
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._start, self._over = start, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        self._listening.settimeout(5)
        talking, _ = self._listening.accept()
        with talking:
            talking.recv(65536)
            talking.sendall(self._start)
            while not self._over.wait(0.02):
                try:
                    talking.sendall(b"x")
                except OSError:
                    return

    def close(self) -> None:
        """Stop."""
        self._over.set()
        self._thread.join()
        self._listening.close()
