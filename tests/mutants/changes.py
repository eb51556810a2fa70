"""Every small change of a module that somebody could make by mistake, and what is argued about some of them."""

from __future__ import annotations

import ast
import copy
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from reconciler.store import statements
from tests.mutants.argued import ARGUED

if TYPE_CHECKING:
    from collections.abc import Iterator

HERE = Path(__file__).parents[2]
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


@dataclass(frozen=True, slots=True)
class Mutant:
    """
    One changed module.

    Attributes:
        number: Which of the module's changes it is.
        statement: The changed statement's name; empty in Python.
        text: What the changed statement says.
    """

    module: str
    line: int
    where: str
    what: str
    number: int = 0
    statement: str = ""
    text: str = ""

    def __str__(self) -> str:
        """Write it as compilers write places."""
        return f"{self.module}:{self.line}: {self.what}: {self.where}"

    @property
    def argued(self) -> str:
        """Why no test can notice it; empty where one has to."""
        return next((why for start, what, why in ARGUED if self.where.startswith(start) and self.what == what), "")


class _Sites(ast.NodeVisitor):
    """Makes each change in place, in turn, and takes it back; keeps the tree of the one that is *wanted*."""

    def __init__(self, module: str, *, wanted: int | None = None) -> None:
        text = source(module)
        self.module = module
        self.lines = text.splitlines()
        self.tree = ast.parse(text)
        self.wanted = wanted
        self.kept = self.tree
        self.found: list[Mutant] = []
        self.visit(self.tree)

    def note(self, node: ast.expr | ast.stmt, what: str) -> None:
        if len(self.found) == self.wanted:
            self.kept = ast.fix_missing_locations(copy.deepcopy(self.tree))
        where = self.lines[node.lineno - 1].strip()
        self.found.append(Mutant(self.module, node.lineno, where, what, len(self.found)))

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


@cache
def source(module: str) -> str:
    """Return the text of *module* as it was at the first call: somebody may go on writing meanwhile."""
    return (HERE / module).read_text("utf-8")


def mutants_of(module: str) -> list[Mutant]:
    """Return every small change of *module*, a path below the checkout."""
    if module.endswith(".sql"):
        return list(_sql_mutants(module))
    return _Sites(module).found


def changed_tree(mutant: Mutant) -> ast.Module:
    """Return the whole changed module, each node where it was."""
    return _Sites(mutant.module, wanted=mutant.number).kept


def _sql_mutants(module: str) -> Iterator[Mutant]:
    text = source(module)
    lines = text.splitlines()
    sound = dict(statements.read(text))
    for number, (start, end, instead, what) in enumerate(sorted(_sql_changes(text))):
        line = text.count("\n", 0, start) + 1
        if "--" not in lines[line - 1]:
            changed = dict(statements.read(text[:start] + instead + text[end:]))
            [name] = (name for name in sound if sound[name] != changed[name])
            yield Mutant(module, line, lines[line - 1].strip(), what, number, name, changed[name])


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
