"""What is written about the program, held against the program: words, commands, statements, events of the log."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import typer

from reconciler import cli
from reconciler.store.statements import statements

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TERMS = [
    "Provider",
    "Source",
    "Scope",
    "Adapter",
    "Kind",
    "ObjectRef",
    "Delivery",
    "Notification",
    "Snapshot",
    "Hint",
    "Position",
    "Stamp",
    "Tombstone",
    "Guard",
    "Verdict",
    "Refetch",
    "Lease",
    "Sweep",
    "Run",
    "Watermark",
    "Drift",
]
# Words that say nothing, or say what another word of ours says already.
NOT_OURS = frozenset(
    [
        "process",
        "handle",
        "sync",
        "data",
        "record",
        "entity",
        "item",
        "manager",
        "service",
        "helper",
        "util",
        "utils",
        "common",
    ]
)
# Names that others gave, by file or folder: asyncio's protocol, the SDK's client, Stripe's objects, GraphQL's answers.
GIVEN = {
    ("server.py", "data"),
    ("wire.py", "post_data"),
    ("shapes.py", "item"),
    ("listing.py", "item"),
    ("shopify", "data"),
}


def sources() -> Iterator[Path]:
    """Yield every module that ships."""
    for folder in ("reconciler", "adapters"):
        yield from (ROOT / folder).rglob("*.py")


def names(module: Path) -> Iterator[str]:
    """Yield every name that a module defines."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def test_one_word_per_thing() -> None:
    """No name is one of the words that are not ours."""
    found = [
        (module.relative_to(ROOT).as_posix(), name)
        for module in sources()
        for name in names(module)
        if (name in NOT_OURS or name.startswith("do_") or name.endswith("_impl"))
        and not {(module.name, name), (module.parent.name, name)} & GIVEN
    ]

    assert found == []


def test_the_vocabulary_is_whole() -> None:
    """The README explains every word of the vocabulary, and each once."""
    told = re.findall(r"^\| \*\*([A-Za-z ]+)\*\* \|", README, re.MULTILINE)

    assert set(TERMS) | {"Dead letter"} == set(told)
    assert len(told) == len(set(told))


def commands() -> dict[str, Any]:
    """Return every command by name."""
    group: Any = typer.main.get_command(cli._app())
    return dict(group.commands)


@pytest.mark.parametrize("name", sorted(commands()))
def test_every_command_is_explained(name: str) -> None:
    """Each command has a line of help, and the README shows where it is used."""
    assert commands()[name].help
    assert re.search(rf"reconcile {name}\b", README), f"the README does not mention reconcile {name}"


def test_every_statement_is_used_by_its_name() -> None:
    """No statement is left over, and none that is asked for is missing."""
    used = {
        node.args[1].value
        for module in (ROOT / "reconciler").rglob("*.py")
        for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in {"run", "rows", "row", "one"}
        and len(node.args) > 1
        and isinstance(node.args[1], ast.Constant)
        and isinstance(node.args[1].value, str)
    }
    text = "".join(module.read_text(encoding="utf-8") for module in (ROOT / "reconciler").rglob("*.py"))

    assert used <= set(statements())
    assert [name for name in statements() if f'"{name}"' not in text] == []


def test_every_statement_makes_a_promise() -> None:
    """Each statement is headed by a comment that says what it promises."""
    for file in (ROOT / "reconciler" / "store").glob("*.sql"):
        for part in file.read_text(encoding="utf-8").split("-- name: ")[1:]:
            assert part.splitlines()[1].startswith("-- "), part.splitlines()[0]


def test_log_events_of_the_readme_are_logged() -> None:
    """Every event that the README names is one that the program logs."""
    named = set(re.findall(r"`((?:delivery|write|refetch|drift|source|run|serve)\.[a-z_]+)`", README))
    text = "".join(module.read_text(encoding="utf-8") for module in (ROOT / "reconciler").rglob("*.py"))

    assert named
    assert [name for name in named if f'"{name}"' not in text] == []


def test_relative_links_lead_somewhere() -> None:
    """Every file that the README links to or names is there."""
    linked = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    named = re.findall(r"`((?:reconciler|adapters|config|systemd|tests)/[\w/.-]+)`", README)

    assert [path for path in (*linked, *named) if not (ROOT / path.replace("NAME", "stripe")).exists()] == []
