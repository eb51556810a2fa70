"""Requests to the other processes of the demo, past any proxy that the environment may name."""

from __future__ import annotations

import http.client
import json
from contextlib import closing

from reconciler.errors import ReconcilerError

_PATIENCE = 90.0
_OK = (200, 202)


def ask(address: str, method: str, path: str, told: object = None, *, token: str = "") -> bytes:
    """Return the body of the answer of whoever listens at *address* (`host:port`); raises `ReconcilerError`."""
    body = None if told is None else json.dumps(told)
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
    with closing(http.client.HTTPConnection(address, timeout=_PATIENCE)) as connection:
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            answer = response.read()
        except OSError as error:
            raise ReconcilerError(f"{address} did not answer {method} {path}: {error}") from error
    if response.status not in _OK:
        raise ReconcilerError(f"{address} answered {response.status} to {method} {path}: {answer[:300]!r}")
    return answer
