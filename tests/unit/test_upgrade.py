"""What differs between one object in two API versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.adapter import Column, Kind, Listing
from reconciler.upgrade import Change, changes

if TYPE_CHECKING:
    from reconciler.model import Body


def kind(*columns: Column, volatile: tuple[str, ...] = ()) -> Kind:
    """Return a kind with these columns."""
    return Kind(
        name="k",
        list=Listing.WHOLE,
        feed="",
        fetch="",
        deletion="",
        permission="",
        cost="",
        columns=columns,
        volatile=volatile,
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ({"a": 1}, {"a": 2}, []),
        ({"a": 1, "b": None}, {"a": 1}, [("field_gone", "/b", "null")]),
        ({"a": None}, {"a": "x"}, []),
        ({"a": 1}, {"a": "1"}, [("field_type", "/a", "number, then text")]),
        ({"a": True}, {"a": 1}, [("field_type", "/a", "truth, then number")]),
        ({"a": {"b": {"c": 1}}}, {"a": {}}, [("field_gone", "/a/b", "object")]),
        ({}, {"a": {"b": 1}}, [("field_new", "/a", "object")]),
        ({"l": [{"a": 1}, {"b": 1}]}, {"l": [{"a": 1}]}, [("field_gone", "/l/*/b", "number")]),
        ({"l": []}, {"l": {}}, [("field_type", "/l", "list, then object")]),
    ],
)
def test_changes_of_fields(ours: Body, theirs: Body, expected: list[tuple[str, str, str]]) -> None:
    """A field that went or came is named once, at its top; one of another type with both; values are no question."""
    assert [(each.what, each.where, each.because) for each in changes(kind(), ours, theirs)] == expected


def test_changes_of_columns() -> None:
    """A column changes where it would show something else: not where it follows a moved field, nor what is volatile."""
    lost, moved = Column("lost", ("/a",), "text"), Column("moved", ("/b", "/c/b"), "text")
    fickle = Column("fickle", ("/v",), "text")

    found = list(
        changes(kind(lost, moved, fickle, volatile=("/v",)), {"a": "x", "b": 1, "v": 1}, {"c": {"b": 1}, "v": 2})
    )

    assert [each for each in found if each.what == "column"] == [Change("k", "column", "lost", '"x", then null')]
