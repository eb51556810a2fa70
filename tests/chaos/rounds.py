"""One round from its beginning to what is found in the end, and the search for the smallest that fails."""

from __future__ import annotations

import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.errors import ReconcilerError
from tests.chaos.checking import broken
from tests.chaos.course import draw
from tests.chaos.stage import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.course import Act, Course

_TRIES = 16
_UNWANTED = shutil.ignore_patterns("server", "binaries", "state")


def play(course: Course, *, keep: Path | None = None) -> list[str]:
    """Play one round, and return each law that did not hold; with *keep* its folder stays there if any."""
    folder = Path(tempfile.mkdtemp(prefix="reconciler-chaos-"))
    folder.chmod(0o755)  # as root the server runs as another user, who must get in
    wrong: list[str] = []
    try:
        with Stage(course, folder) as stage:
            wrong = _played(stage, course.acts)
    except ReconcilerError as error:
        wrong = [f"the round broke down: {error}"]
    finally:
        if wrong and keep is not None:
            shutil.copytree(folder, keep / f"seed-{course.seed}", dirs_exist_ok=True, ignore=_UNWANTED)
        shutil.rmtree(folder, ignore_errors=True)
    return wrong


def _played(stage: Stage, acts: Sequence[Act]) -> list[str]:
    stage.perform(acts)
    told = [stage.settle(), stage.sweep(), stage.sweep("--full")]
    compared = stage.compare()
    told += [f"diverges: {'/'.join(ref)}" for ref in compared.divergent]
    return [each for each in told if each] + broken(stage.seen())


def smallest(course: Course) -> Course:
    """Return the smallest course found that still fails: acts are left out by halves, then by less."""
    acts, size, tries = list(course.acts), 2, 0
    while len(acts) > 1 and size <= len(acts) and tries < _TRIES:
        step = -(-len(acts) // size)
        for start in range(0, len(acts), step):
            fewer = acts[:start] + acts[start + step :]
            tries += 1
            if fewer and play(replace(course, acts=tuple(fewer))):
                acts, size = fewer, max(2, size - 1)
                break
        else:
            size *= 2
    return replace(course, acts=tuple(acts))


def timed(seed: int, keep: Path | None) -> tuple[int, float, list[str]]:
    """Play the round of *seed*; return it, the seconds it took, and each law that did not hold."""
    began = time.monotonic()
    wrong = play(draw(seed), keep=keep)
    return seed, time.monotonic() - began, wrong
