"""A drain in a program of its own, for tests that kill it. Says when it works, and ends in order on SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
import threading
from datetime import timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from reconciler.store.database import connect
from tests.paths.draining import side

stop = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: stop.set())
database = connect(os.environ["DRAINING_DATABASE"], schema=os.environ["DRAINING_SCHEMA"], connections=8)
lease = timedelta(seconds=float(os.environ["DRAINING_LEASE"]))
with side(database, os.environ["DRAINING_PROVIDER"], timeout=(2.0, 60.0), lease=lease) as process:
    process.drain.start(stop)
    print("working", flush=True)
    stop.wait()
    print("ended" if process.drain.join(0.5) else "released", flush=True)
    os._exit(0)  # as a daemon ends whose worker still waits for its provider
