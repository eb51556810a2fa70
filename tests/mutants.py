"""
Break the core on purpose, one small change at a time, and see that a test notices.

    python -m tests.mutants [--sample N] [--seed N] [--least PERCENT] [--list] [MODULE ...]

Without MODULE it is the store's core, whole: what is applied, wanted, leased and closed; a sample is drawn from all
that matters. A change that no test notices is printed with its place. Ends with 1 if one of the store's core is among
them that is not argued below, or if fewer than PERCENT of the others were noticed.
"""

from __future__ import annotations

import argparse
import ast
import multiprocessing
import os
import random
import re
import shutil
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from queue import Queue
from typing import TYPE_CHECKING

import pytest

from reconciler.embedded import DATABASE, Embedded
from reconciler.store.database import connect
from reconciler.store.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_HERE = Path(__file__).parents[1]
_PARTS = ("reconciler", "adapters", "migrations", "config", "systemd", "tests")
# Where a wrong sign costs somebody a row.
_CORE = (
    "reconciler/content.py",
    "reconciler/receive.py",
    "reconciler/drain/*.py",
    "reconciler/sweep/*.py",
    "reconciler/store/guard.*",
    "reconciler/store/refetches.*",
    "reconciler/store/events.*",
    "reconciler/store/runs.*",
    "adapters/stripe/signature.py",
)
_GUARD = ("guard_table", "ladders", "shapes", "hand_edit", "guard_laws", "guard_races")
_REFETCHES = ("refetches", "ladders", "hand_edit", "guard_races", "guard_laws")
_EVENTS = ("events", "guard_races")
# The store's core, and the words by which its tests are known, the quickest to notice first.
_STORE = {
    "reconciler/store/guard.py": _GUARD,
    "reconciler/store/guard.sql": (*_GUARD, "refetches"),
    "reconciler/store/refetches.py": _REFETCHES,
    "reconciler/store/refetches.sql": (*_REFETCHES, "plans"),
    "reconciler/store/events.py": _EVENTS,
    "reconciler/store/events.sql": _EVENTS,
    "reconciler/store/mirror.py": ("shapes",),
    "reconciler/store/mirror.sql": ("shapes",),
}
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_SQL = {
    "GREATEST": "LEAST",
    "LEAST": "GREATEST",
    " < ": " <= ",
    " <= ": " < ",
    " > ": " >= ",
    " >= ": " > ",
    " AND ": " OR ",
    "IS NULL": "IS NOT NULL",
    "IS NOT NULL": "IS NULL",
}
_SQL_TOKEN = re.compile("|".join(sorted(map(re.escape, _SQL), key=len, reverse=True)))
# What can be left out of a statement, as far as it stands on a line of its own.
_LEFT_OUT = (
    re.compile(r"^ +(?:AND|ORDER BY) [^\n]*$", re.MULTILINE),
    re.compile(r"^    \w+ += [^\n]*,$", re.MULTILINE),
    re.compile(r"ON CONFLICT [^\n]*DO NOTHING"),
    re.compile(r"FOR UPDATE(?: OF mine)?"),
    re.compile(r" SKIP LOCKED"),
    re.compile(r"^ORDER BY [^\n;]*$", re.MULTILINE),
)
_DRAWN_ANEW = re.compile(r"(?<=GREATEST\()nextval\('positions'\)")
_ANOTHER = {
    "Verdict": ("APPLIED", "TIED", "DECLINED", "UNCHANGED"),
    "Standing": ("AFTER", "OVERLAPPING", "BEFORE"),
    "Age": ("NEWER", "EQUAL", "OLDER"),
    "Change": ("CREATED", "UPDATED", "DELETED", "RESTORED", "REWOUND", "RESHAPED", "LOADED"),
    "Reason": ("TIE", "REREAD", "WEBHOOK", "REPLAY"),
}
# It takes as long as all the others, and these notice as much.
_SLOW = "tests/store/test_guard_laws.py::test_small_worlds"
_PATIENCE_WITH_ONE = 45
# A process for each change, which finds all but our own modules loaded.
_FRESH = multiprocessing.get_context("forkserver")
_LOADED = ["pytest", "sqlalchemy.dialects.postgresql.psycopg", "alembic.command", "simplejson"]
_HASTY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed module: where, how, and its whole text."""

    module: str
    line: int
    where: str
    what: str
    text: str

    def __str__(self) -> str:
        """Write it as compilers write places."""
        return f"{self.module}:{self.line}: {self.what}: {self.where}"

    @property
    def argued(self) -> str:
        """Why no test can notice it; empty where one has to."""
        return next((why for start, what, why in ARGUED if self.where.startswith(start) and self.what == what), "")


# Changes that make no difference: how their line begins, what was done to it, and why.
ARGUED: tuple[tuple[str, str, str], ...] = (
    ("FURTHEST = timedelta", "25 became 26", "anything beyond the last look a day after will do"),
    ("_ANY_SHAPE = 2**31", "1 became 2", "anything beyond every shape will do"),
    ("digest = hashlib.sha256", "16 became 17", "any length tells shapes apart"),
    ("if incoming is None or incoming < stored", "Lt became LtE", "equal stamps are told apart above it"),
    ("if first is None or first.ended_at > now", "Gt became GtE", "one that ended this very instant may begin anew"),
    ("if first is None or first.ended_at > now", "LtE became Lt", "no two reads end at one position"),
    ("beyond = max(positions, default=0)", "0 became 1", "no position is below one"),
    ("if beyond >= (self.position", "GtE became Gt", "the next number to be drawn is beyond an equal one"),
    ("if mentioned.stamp is not None and (about", "Gt became GtE", "of two mentions with one stamp either will do"),
)


class _Sites(ast.NodeVisitor):
    """Makes each change in place, in turn, and takes it back after the text was written."""

    def __init__(self, module: str, text: str) -> None:
        self.module = module
        self.lines = text.splitlines()
        self.tree = ast.parse(text)
        self.found: list[Mutant] = []

    def note(self, node: ast.expr | ast.stmt, what: str) -> None:
        where = self.lines[node.lineno - 1].strip()
        self.found.append(Mutant(self.module, node.lineno, where, what, ast.unparse(self.tree)))

    def visit_Compare(self, node: ast.Compare) -> None:
        for place, before in enumerate(node.ops):
            node.ops[place] = _COMPARED[type(before)]()
            self.note(node, f"{type(before).__name__} became {type(node.ops[place]).__name__}")
            node.ops[place] = before
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        before = node.op
        node.op = ast.Or() if isinstance(before, ast.And) else ast.And()
        self.note(node, f"{type(before).__name__} became {type(node.op).__name__}")
        node.op = before
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            operand = node.operand
            node.operand = ast.UnaryOp(ast.Not(), operand)
            self.note(node, "a negation was lost")
            node.operand = operand
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        before = node.op
        if isinstance(before, ast.Add | ast.Sub):
            node.op = ast.Sub() if isinstance(before, ast.Add) else ast.Add()
            self.note(node, f"{type(before).__name__} became {type(node.op).__name__}")
            node.op = before
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        before = node.value
        if isinstance(before, bool | int | float):
            node.value = not before if isinstance(before, bool) else before + 1
            self.note(node, f"{before} became {node.value}")
            node.value = before

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for part in node.body:
            self.visit(part)

    def visit_keyword(self, node: ast.keyword) -> None:
        if node.arg != "strict":  # what is zipped has one length
            self.visit(node.value)

    def visit_If(self, node: ast.If) -> None:
        if not (isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            self.turn_round(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.turn_round(node)

    def turn_round(self, node: ast.If | ast.IfExp) -> None:
        before = node.test
        if isinstance(before, ast.Name | ast.Attribute | ast.Call):
            node.test = ast.UnaryOp(ast.Not(), before)
            self.note(before, "a condition was turned round")
            node.test = before
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            before = node.value
            node.value = ast.Constant(None)
            self.note(node, "a call was lost")
            node.value = before
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        before = node.attr
        others = _ANOTHER.get(node.value.id, ()) if isinstance(node.value, ast.Name) else ()
        if before in others:
            node.attr = others[(others.index(before) + 1) % len(others)]
            self.note(node, f"{before} became {node.attr}")
            node.attr = before
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for part in (*node.args.defaults, *node.args.kw_defaults, *node.body):
            if part is not None:
                self.visit(part)


def mutants_of(module: str) -> list[Mutant]:
    """Return every small change of *module*, a path below the checkout."""
    text = (_HERE / module).read_text("utf-8")
    if module.endswith(".sql"):
        return list(_sql_mutants(module, text))
    sites = _Sites(module, text)
    sites.visit(sites.tree)
    return sites.found


def _sql_mutants(module: str, text: str) -> Iterator[Mutant]:
    lines = text.splitlines()
    for start, end, instead, what in sorted(_sql_changes(text)):
        line = text.count("\n", 0, start) + 1
        if "--" not in lines[line - 1]:
            yield Mutant(module, line, lines[line - 1].strip(), what, text[:start] + instead + text[end:])


def _sql_changes(text: str) -> Iterator[tuple[int, int, str, str]]:
    for match in _SQL_TOKEN.finditer(text):
        became = _SQL[match[0]]
        yield match.start(), match.end(), became, f"{match[0].strip()} became {became.strip()}"
    for match in _DRAWN_ANEW.finditer(text):
        yield match.start(), match.end(), "0", "no number was drawn"
    for pattern in _LEFT_OUT:
        for match in pattern.finditer(text):
            if match[0].count("(") == match[0].count(")"):
                yield match.start(), match.end(), "", f"{match[0].split()[0]} was left out"


def tests_of(module: str) -> list[str]:
    """Return the test files that are about *module*: by its folder and name, else its name, else its folder."""
    if module in _STORE:
        return [f"tests/store/test_{word}.py" for word in _STORE[module]]
    path = Path(module)
    for word in (f"{path.parent.name}_{path.stem}", path.stem, path.parent.name):
        if found := sorted(_HERE.glob(f"tests/*/test_{word}*.py")):
            return [str(each.relative_to(_HERE)) for each in found]
    return []


def run_tests(folder: str, environment: Mapping[str, str], arguments: Sequence[str]) -> None:
    """Run pytest in *folder*, whose modules take the place of ours, and end this process with its answer."""
    os.chdir(folder)
    os.environ.update(environment)
    sys.dont_write_bytecode = True
    for name in [name for name in sys.modules if name.partition(".")[0] in _PARTS]:
        del sys.modules[name]
    sys.path[:0] = [folder]
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    sys.exit(pytest.main(list(arguments)))


class Room:
    """A copy of the checkout that may be broken, and a database server for its tests."""

    def __init__(self, folder: Path, server: str, template: str) -> None:
        self.folder = folder
        self._environment = {"RECONCILER_TEST_DATABASE_URL": server, "RECONCILER_TEST_TEMPLATE": template}
        for part in _PARTS:
            shutil.copytree(_HERE / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(_HERE / "pyproject.toml", folder)

    def passes(self, tests: Sequence[str], *, patience: float) -> bool:
        """Tell whether *tests* pass as the room is now; hanging is failing."""
        hanging = (f"faulthandler_timeout={_PATIENCE_WITH_ONE}", "faulthandler_exit_on_timeout=true")
        options = [word for each in hanging for word in ("-o", each)]
        arguments = ["-q", "-x", "-p", "no:cacheprovider", *options, "--deselect", _SLOW, *tests]
        running = _FRESH.Process(target=run_tests, args=(str(self.folder), self._environment, arguments))
        running.start()
        running.join(patience)
        if running.is_alive():
            running.kill()
            running.join()
        return running.exitcode == 0

    def notices(self, mutant: Mutant, tests: Sequence[str], *, patience: float) -> bool:
        """Tell whether *tests* fail with *mutant* in place of its module."""
        place = self.folder / mutant.module
        sound = place.read_text("utf-8")
        place.write_text(mutant.text, "utf-8")
        try:
            return not self.passes(tests, patience=patience)
        finally:
            place.write_text(sound, "utf-8")


def _chosen(asked: argparse.Namespace) -> list[Mutant]:
    """Return the sample, as evenly spread over the modules as it goes, the same for the same seed."""
    core = sorted(str(path.relative_to(_HERE)) for pattern in _CORE for path in _HERE.glob(pattern))
    whole = list(_STORE) if asked.sample is None else [module for module in core if tests_of(module)]
    draw = random.Random(asked.seed)
    found = [[each for each in mutants_of(module) if not each.argued] for module in asked.modules or whole]
    piles = [draw.sample(each, len(each)) for each in found]
    every = [pile[deep] for deep in range(max(map(len, piles), default=0)) for pile in piles if deep < len(pile)]
    return sorted(every[: asked.sample], key=lambda each: (each.module, each.line))


def _template(embedded: Embedded) -> str:
    """Return the name of a migrated database: the schema is the same for every change."""
    database = connect(embedded.url(DATABASE), schema="reconciler", connections=1)
    migrate(database)
    database.close()
    return DATABASE


def _patience(room: Room, tests: Sequence[str]) -> float:
    """Return how long *tests* may take, from how long they take when nothing is broken."""
    began = time.monotonic()
    if not room.passes(tests, patience=900):
        raise SystemExit(f"these fail without any change: {' '.join(tests)}")
    return 30 + 3 * (time.monotonic() - began)


def _try_all(rooms: Sequence[Room], mutants: Sequence[Mutant]) -> list[Mutant]:
    """Return those that nothing noticed, printing each as it is found."""
    suites = {module: tests_of(module) for module in {mutant.module for mutant in mutants}}
    patience = _patience(rooms[0], sorted({test for tests in suites.values() for test in tests}))
    tried = count(1)
    free: Queue[Room] = Queue()
    for room in rooms:
        free.put(room)

    def survives(mutant: Mutant) -> bool:
        room = free.get()
        try:
            noticed = room.notices(mutant, suites[mutant.module], patience=patience)
        finally:
            free.put(room)
        if not noticed:
            print(f"{mutant}\n    and no test noticed", flush=True)
        if (number := next(tried)) % 25 == 0:
            print(f"{number} of {len(mutants)}", file=sys.stderr, flush=True)
        return not noticed

    with ThreadPoolExecutor(len(rooms)) as pool:
        survivors = list(pool.map(survives, mutants))
    return [mutant for mutant, survived in zip(mutants, survivors, strict=True) if survived]


def _are_enough(mutants: Sequence[Mutant], survivors: Sequence[Mutant], *, least: int) -> bool:
    others = [mutant for mutant in mutants if mutant.module not in _STORE]
    left = [mutant for mutant in survivors if mutant.module not in _STORE]
    return len(left) == len(survivors) and (len(others) - len(left)) * 100 >= least * len(others)


def main(arguments: Sequence[str]) -> int:
    """Try the mutants that *arguments* ask for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Break the core, see tests notice.")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="a path such as reconciler/content.py")
    parser.add_argument("--sample", type=int, help="try so many of them; all of them when absent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=int, default=75, metavar="PERCENT")
    parser.add_argument("--list", action="store_true", help="only say what would be tried")
    asked = parser.parse_args(arguments)
    mutants = _chosen(asked)
    if asked.list:
        print(*mutants, sep="\n")
        return 0
    _FRESH.set_forkserver_preload(_LOADED)
    with tempfile.TemporaryDirectory(prefix="reconciler-mutants-") as folder:
        place = Path(folder)
        place.chmod(0o711)
        with Embedded(place / "postgres", settings=_HASTY) as embedded:
            template = _template(embedded)
            numbers = range(os.cpu_count() or 1)
            rooms = [Room(place / f"room-{number}", embedded.url(), template) for number in numbers]
            survivors = _try_all(rooms, mutants)
    noticed = len(mutants) - len(survivors)
    print(f"{len(mutants)} changes, {noticed} noticed, {len(survivors)} not")
    return int(not _are_enough(mutants, survivors, least=asked.least))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
