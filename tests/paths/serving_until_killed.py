"""A public listener in a program of its own, for tests that kill it. Says its URL, then serves until the end."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from reconciler.store.database import connect
from tests.paths.listening import listening

database = connect(os.environ["SERVING_DATABASE"], schema=os.environ["SERVING_SCHEMA"], connections=2)
with listening(database) as serving:
    print(serving.inbox, flush=True)
    threading.Event().wait()
