"""Named statements: each says what it promises, and is run under its own name."""

from __future__ import annotations

import ast
import re
from importlib import resources
from pathlib import Path

import pytest

from reconciler.store.statements import statements

_FOLDER = Path(str(resources.files("reconciler.store")))
_FILES = sorted(_FOLDER.glob("*.sql"))


def names_run() -> set[str]:
    """Return the names under which the program runs statements, wherever it does."""
    found = set()
    for path in _FOLDER.parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.add(node.value)
    return found


def test_names() -> None:
    """Every statement is run by its name somewhere, and no name is run that has none."""
    assert set(statements()) - names_run() == set()


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.name)
def test_promises(path: Path) -> None:
    """Every statement begins with a sentence that says what it does."""
    parts = re.split(r"^-- name: (\w+)\n", path.read_text("utf-8"), flags=re.MULTILINE)

    assert parts[0] == ""
    for name, body in zip(parts[1::2], parts[2::2], strict=True):
        assert re.match(r"-- [A-Z][^\n]+[^\n]", body), name
        assert body.rstrip().endswith(";"), name


@pytest.mark.parametrize("name", sorted(statements()))
def test_text(name: str) -> None:
    """What is run is one statement without its comments."""
    text = statements()[name]

    assert text == text.strip()
    assert text.count(";") == 1
    assert "--" not in text
    assert re.search(r"%(?!\(\w+\)[bs])", text) is None
