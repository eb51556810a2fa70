"""How a stand-in that runs by itself is asked to end."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

_WAITS = """
import signal, threading, time
from adapters.sandbox.serving import wait_for_signal

def ask():
    while signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        time.sleep(0.01)
    for each in {signals}:
        signal.pthread_kill(threading.get_ident(), each)
    time.sleep(60)

threading.Thread(target=ask, daemon=True).start()
wait_for_signal()
"""


@pytest.mark.parametrize("signals", [[signal.SIGTERM], [signal.SIGINT], [signal.SIGINT, signal.SIGINT, signal.SIGINT]])
def test_a_signal_that_comes_to_another_thread(signals: list[signal.Signals]) -> None:
    """Whichever thread the kernel gives the signal to, and however many come, the wait is over."""
    numbers = [int(each) for each in signals]

    ended = subprocess.run([sys.executable, "-c", _WAITS.format(signals=numbers)], timeout=30, check=False)

    assert ended.returncode in {0, -signal.SIGINT}
