"""Clocks of single processes, set while they run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

COMPILER = shutil.which("cc")
"""What makes the library that sets clocks; None: there is none here, and no clock is set."""

_SOURCE = Path(__file__).with_name("clock.c")


class Clock:
    """The wall clock of whatever runs in its environment, and of nobody else."""

    def __init__(self, place: Path, library: Path | None) -> None:
        self._place = place
        self._library = library
        place.write_bytes(bytes(8))
        place.chmod(0o644)

    def set(self, seconds: int) -> None:
        """Set it so many seconds off, now."""
        with self._place.open("r+b") as file:
            file.write(seconds.to_bytes(8, "little", signed=True))

    def environment(self) -> dict[str, str]:
        """Return what makes a process read it; nothing where clocks cannot be set."""
        return {} if self._library is None else {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._place)}


def compiled(folder: Path) -> Path | None:
    """Return the library that sets clocks, made in *folder*; None: there is no compiler."""
    if COMPILER is None:
        return None
    library = folder / "clock.so"
    command = [COMPILER, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(library), str(_SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library
