"""
Let everything around the daemon fail, and see that the laws hold.

    python -m tests.chaos [--seed N] [--rounds N] [--beside N] [--keep FOLDER]

A round draws its course from its seed: changes, deletions and returns at the providers; deliveries lost, doubled, late
and reordered; providers that fail, hang, shift pages or lock us out; daemons killed and ended; a database that
restarts, is cut off or full; clocks set; rows edited by hand; sweeps beside it all. Then the provider is quiet, one
sweep and one full sweep run, and `tests.chaos.checking` says which law did not hold. Of a round that failed the
smallest course that still fails is looked for. Ends with 1 if any failed.
"""

from __future__ import annotations

import argparse
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from tests.chaos.clocks import COMPILER
from tests.chaos.course import draw
from tests.chaos.rounds import smallest, timed

if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Play the rounds that *arguments* ask for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description="Let everything fail, see laws hold.")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each further one has the next")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--beside", type=int, default=os.cpu_count() or 1, help="so many rounds at a time")
    parser.add_argument("--keep", type=Path, help="keep the logs of rounds that fail in this folder")
    parser.add_argument("--whole", action="store_true", help="look for no smaller course that fails")
    asked = parser.parse_args(arguments)
    if COMPILER is None:
        print("there is no C compiler (cc): no clock is set", file=sys.stderr)
    failed: list[int] = []
    with ProcessPoolExecutor(asked.beside, max_tasks_per_child=1) as pool:
        seeds = range(asked.seed, asked.seed + asked.rounds)
        for seed, took, wrong in pool.map(timed, seeds, [asked.keep] * asked.rounds):
            course = draw(seed)
            print(
                f"seed {seed}: {' and '.join(course.providers)}, {took:.0f} s: {'FAILED' if wrong else 'held'}",
                flush=True,
            )
            for each in wrong:
                print(f"    {each}", flush=True)
            if wrong:
                failed.append(seed)
    for seed in failed[:1] if not asked.whole else []:
        print(f"the smallest course of seed {seed} that was seen to fail:", flush=True)
        for act in smallest(draw(seed)).acts:
            print(f"    {act}", flush=True)
    print(f"{asked.rounds} rounds, {len(failed)} failed", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
