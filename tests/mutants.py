"""
Break the core on purpose, one small change at a time, and see that a test notices.

    python -m tests.mutants [--sample N] [--seed N] [--least PERCENT] [MODULE ...]

A change that no test notices is printed with its place. Ends with 1 where fewer than PERCENT were noticed.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.embedded import Embedded

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

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
_HASTY = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "max_connections": "200"}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One changed module: where, how, and its whole text."""

    module: str
    line: int
    what: str
    text: str

    def __str__(self) -> str:
        """Write it as compilers write places."""
        return f"{self.module}:{self.line}: {self.what}"


class _Sites(ast.NodeVisitor):
    """Makes each change in place, in turn, and takes it back after the text was written."""

    def __init__(self, module: str, tree: ast.Module) -> None:
        self.module = module
        self.tree = tree
        self.found: list[Mutant] = []

    def note(self, node: ast.expr, what: str) -> None:
        self.found.append(Mutant(self.module, node.lineno, what, ast.unparse(self.tree)))

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
        if isinstance(before, bool | int):
            node.value = not before if isinstance(before, bool) else before + 1
            self.note(node, f"{before} became {node.value}")
            node.value = before

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
    sites = _Sites(module, ast.parse(text))
    sites.visit(sites.tree)
    return sites.found


def _sql_mutants(module: str, text: str) -> Iterator[Mutant]:
    for match in _SQL_TOKEN.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        if "--" not in text[text.rfind("\n", 0, match.start()) + 1 : match.start()]:
            changed = text[: match.start()] + _SQL[match[0]] + text[match.end() :]
            yield Mutant(module, line, f"{match[0].strip()} became {_SQL[match[0]].strip()}", changed)


def tests_of(module: str) -> list[str]:
    """Return the test files that are about *module*: by its folder and name, else its name, else its folder."""
    path = Path(module)
    for word in (f"{path.parent.name}_{path.stem}", path.stem, path.parent.name):
        if found := sorted(_HERE.glob(f"tests/*/test_{word}*.py")):
            return [str(each.relative_to(_HERE)) for each in found]
    return []


class Room:
    """A copy of the checkout that may be broken, and a database server for its tests."""

    def __init__(self, folder: Path, server: str) -> None:
        self.folder = folder
        self._environment = {
            **os.environ,
            "PYTHONPATH": str(folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "RECONCILER_TEST_DATABASE_URL": server,
        }
        for part in _PARTS:
            shutil.copytree(_HERE / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(_HERE / "pyproject.toml", folder)

    def passes(self, tests: Sequence[str], *, patience: float) -> bool:
        """Tell whether *tests* pass as the room is now; hanging is failing."""
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        try:
            done = subprocess.run(
                command, cwd=self.folder, env=self._environment, timeout=patience, capture_output=True, check=False
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

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
    modules = asked.modules or [module for module in core if tests_of(module)]
    draw = random.Random(asked.seed)
    piles = [draw.sample(each, len(each)) for module in modules if (each := mutants_of(module))]
    every = [pile[deep] for deep in range(max(map(len, piles), default=0)) for pile in piles if deep < len(pile)]
    return sorted(every[: asked.sample], key=lambda each: (each.module, each.line))


def _patience(room: Room, tests: Sequence[str]) -> float:
    """Return how long *tests* may take, from how long they take when nothing is broken."""
    began = time.monotonic()
    if not room.passes(tests, patience=600):
        raise SystemExit(f"these fail without any change: {' '.join(tests)}")
    return 10 + 4 * (time.monotonic() - began)


def _try_all(room: Room, mutants: Sequence[Mutant]) -> list[Mutant]:
    """Return those that nothing noticed, printing each as it is found."""
    patience: dict[str, float] = {}
    survivors = []
    for mutant in mutants:
        tests = tests_of(mutant.module)
        if mutant.module not in patience:
            patience[mutant.module] = _patience(room, tests)
        if not room.notices(mutant, tests, patience=patience[mutant.module]):
            print(f"{mutant}, and no test noticed", flush=True)
            survivors.append(mutant)
    return survivors


def main(arguments: Sequence[str]) -> int:
    """Try the mutants that *arguments* ask for; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description="Break the core, see tests notice.")
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="a path such as reconciler/content.py")
    parser.add_argument("--sample", type=int, help="try so many of them; all of them when absent")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=int, default=75, metavar="PERCENT")
    asked = parser.parse_args(arguments)
    mutants = _chosen(asked)
    with tempfile.TemporaryDirectory(prefix="reconciler-mutants-") as folder:
        place = Path(folder)
        place.chmod(0o711)
        with Embedded(place / "postgres", settings=_HASTY) as embedded:
            survivors = _try_all(Room(place / "room", embedded.url()), mutants)
    noticed = len(mutants) - len(survivors)
    print(f"{len(mutants)} changes, {noticed} noticed, {len(survivors)} not")
    return int(noticed * 100 < asked.least * len(mutants))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
