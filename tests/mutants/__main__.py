"""
Break the core on purpose, one small change at a time, and see that a test notices.

    python -m tests.mutants [--sample N] [--seed N] [--least PERCENT] [--at-once N] [--list]
                            [MODULE ...] [--tests FILE ...]

Without MODULE it is the core. A change that no test notices is printed with its place. Ends with 1 if one of the core
is among them that is not argued, or if fewer than PERCENT of the others were noticed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from reconciler.embedded import DATABASE, Embedded
from reconciler.store.database import connect
from reconciler.store.migrate import migrate
from tests.mutants.changes import HERE, mutants_of
from tests.mutants.trying import Trying

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutants.changes import Mutant

# Where a wrong sign costs somebody a row: of these every change has to be noticed, or argued.
_CORE = (
    "reconciler/store/guard.*",
    "reconciler/store/refetches.*",
    "reconciler/store/events.*",
    "reconciler/store/mirror.*",
    "adapters/*/signature.py",
)
# Their tests, which run them in this process. What only the search of `guard_laws` would find must be noticed without.
_TESTS = (
    *(
        f"tests/store/test_{word}.py"
        for word in (
            "events",
            "forgetting",
            "guard_races",
            "guard_table",
            "hand_edit",
            "ladders",
            "line",
            "plans",
            "refetches",
            "replays",
            "retention",
            "shapes",
            "shares",
        )
    ),
    "tests/adapters/test_*_signature.py",
)
_HASTY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}


def _found(patterns: Sequence[str]) -> list[str]:
    return sorted(str(path.relative_to(HERE)) for each in patterns for path in HERE.glob(each))


def _chosen(asked: argparse.Namespace) -> list[Mutant]:
    """Return the sample, as evenly spread over the modules as it goes, the same for the same seed."""
    modules = asked.modules or _found(_CORE)
    draw = random.Random(asked.seed)
    found = [[each for each in mutants_of(module) if not each.argued] for module in modules]
    piles = [draw.sample(each, len(each)) for each in found]
    every = [pile[deep] for deep in range(max(map(len, piles), default=0)) for pile in piles if deep < len(pile)]
    return sorted(every[: asked.sample], key=lambda each: (each.module, each.line))


def _template(embedded: Embedded) -> str:
    """Return the name of a migrated database: the schema is the same for every change."""
    database = connect(embedded.url(DATABASE), schema="reconciler", connections=1)
    migrate(database)
    database.close()
    return DATABASE


def _tried(mutants: Sequence[Mutant], tests: Sequence[str], *, at_once: int) -> Trying:
    with tempfile.TemporaryDirectory(prefix="reconciler-mutants-") as folder:
        place = Path(folder)
        place.chmod(0o711)
        with Embedded(place / "postgres", settings=_HASTY) as embedded:
            os.environ["RECONCILER_TEST_DATABASE_URL"] = embedded.url()
            os.environ["RECONCILER_TEST_TEMPLATE"] = _template(embedded)
            trying = Trying(mutants, server=embedded.url(), at_once=at_once)
            without = [word for each in ("cacheprovider", "terminal", "xdist", "cov") for word in ("-p", f"no:{each}")]
            code = pytest.main(
                ["-s", "-W", "ignore::pytest.PytestAssertRewriteWarning", *without, *tests], plugins=[trying]
            )
    if code != pytest.ExitCode.OK:
        raise SystemExit(f"pytest ended with {code!r} before anything was tried")
    return trying


def _are_enough(mutants: Sequence[Mutant], survivors: Sequence[Mutant], *, least: int) -> bool:
    whole = set(_found(_CORE))
    others = [mutant for mutant in mutants if mutant.module not in whole]
    left = [mutant for mutant in survivors if mutant.module not in whole]
    return len(left) == len(survivors) and (len(others) - len(left)) * 100 >= least * len(others)


def main(arguments: Sequence[str]) -> int:
    """Try the mutants that *arguments* ask for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Break the core, see tests notice.")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="a path such as reconciler/content.py")
    parser.add_argument("--sample", type=int, help="try so many of them; all of them when absent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=int, default=75, metavar="PERCENT")
    parser.add_argument("--list", action="store_true", help="only say what would be tried")
    parser.add_argument("--tests", nargs="*", help="files of tests instead of all that may notice")
    parser.add_argument("--at-once", type=int, default=os.cpu_count() or 1, help="processes; as many as cores")
    asked = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    mutants = _chosen(asked)
    if asked.list:
        print(*mutants, sep="\n")
        return 0
    began = time.monotonic()
    trying = _tried(mutants, asked.tests or _found(_TESTS), at_once=asked.at_once)
    if trying.unsound:
        print("fail without any change, and were left out:", *trying.unsound, sep="\n    ", file=sys.stderr)
    survivors = trying.survivors
    took, cpu = time.monotonic() - began, sum(os.times()[:4])
    told = f"{len(mutants) - len(survivors)} noticed ({len(trying.hanging)} by hanging), {len(survivors)} not"
    print(f"{len(mutants)} changes, {told}, in {took:.0f} s ({cpu:.0f} s of CPU beside the server's)")
    return int(not _are_enough(mutants, survivors, least=asked.least))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
