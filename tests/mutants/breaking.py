"""
Put a change in place in a process that has everything loaded, so that no module need be loaded anew.

A changed statement takes the place of the one of its name. A changed function keeps its identity and gets other code.
Whatever stands outside functions (a constant, a table, a default) is executed anew, and its new value goes wherever the
old one is known by that name.
"""

from __future__ import annotations

import ast
import gc
import importlib
import inspect
import sys
from types import CodeType, FunctionType
from typing import TYPE_CHECKING

from reconciler.store import statements
from tests.mutants.changes import changed_tree, source

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from tests.mutants.changes import Mutant

_OURS = ("reconciler", "adapters", "tests")


def put_in_place(mutant: Mutant) -> None:
    """Make this process work as *mutant* has it, for good."""
    if mutant.statement:
        statements.statements()[mutant.statement] = mutant.text
        return
    module = module_of(mutant.module)
    changed = changed_tree(mutant)
    was = _functions(compile(source(mutant.module), _file(module), "exec"))
    becomes = _functions(compile(changed, _file(module), "exec"))
    others = {was[place]: code for place, code in becomes.items() if was[place] != code}
    if others:
        for function in [each for each in gc.get_objects() if isinstance(each, FunctionType)]:
            function.__code__ = others.get(function.__code__, function.__code__)
    else:
        _execute_anew(module, changed, mutant.line)


def module_of(path: str) -> ModuleType:
    """Return the module at *path*, a path below the checkout."""
    return importlib.import_module(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."))


def _file(module: ModuleType) -> str:
    return str(module.__file__)


def _functions(code: CodeType) -> dict[tuple[int, str], CodeType]:
    """Return the code of each function that stands in no other, by its place."""
    found: dict[tuple[int, str], CodeType] = {}
    for part in code.co_consts:
        if isinstance(part, CodeType):
            is_class = not part.co_flags & inspect.CO_NEWLOCALS
            found |= _functions(part) if is_class else {(part.co_firstlineno, part.co_qualname): part}
    return found


def _execute_anew(module: ModuleType, changed: ast.Module, line: int) -> None:
    [statement] = (each for each in changed.body if _first_line(each) <= line <= (each.end_lineno or 0))
    space = dict(vars(module))
    exec(compile(ast.Module([statement], []), _file(module), "exec"), space)  # noqa: S102 - our own text
    for name, value in space.items():
        before = vars(module).get(name)
        if value is before or name.startswith("__"):
            continue
        if isinstance(before, FunctionType | type):
            _take_defaults(before, value)
        else:
            for knowing in _ours():
                if vars(knowing).get(name) is before:
                    setattr(knowing, name, value)


def _first_line(statement: ast.stmt) -> int:
    decorators = statement.decorator_list if isinstance(statement, ast.ClassDef | ast.FunctionDef) else []
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _take_defaults(before: FunctionType | type, after: FunctionType | type) -> None:
    """Give what is known already the defaults of what was made anew."""
    if isinstance(before, FunctionType) and isinstance(after, FunctionType):
        before.__defaults__, before.__kwdefaults__ = after.__defaults__, after.__kwdefaults__
        return
    for name, value in vars(after).items():
        known = vars(before).get(name)
        if isinstance(known, FunctionType) and isinstance(value, FunctionType):
            _take_defaults(known, value)
        elif isinstance(value, bool | int | float):
            setattr(before, name, value)


def _ours() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in _OURS:
            yield module
