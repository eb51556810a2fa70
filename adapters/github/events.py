"""What an event says: which objects it names, in which repository, and how old they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adapters.github.calls import instant
from reconciler import content
from reconciler.model import Named, ObjectRef

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from adapters.github.kinds import Row
    from reconciler.model import JSON, Body

# Objects that may live in another repository than the one that tells of them, and where that one is shown.
_HOMES: Final = {
    "/changes/new_issue": "/changes/new_repository",
    "/changes/old_issue": "/changes/old_repository",
    "/parent_issue": "/parent_issue_repo",
    "/sub_issue": "/sub_issue_repo",
    "/blocked_issue": "/blocked_issue_repo",
    "/blocking_issue": "/blocking_issue_repo",
}
_HERE: Final = "/repository"
_SUBJECTS: Final = {
    "issues": "/issue",
    "issue_comment": "/comment",
    "pull_request": "/pull_request",
    "pull_request_review": "/pull_request",
    "pull_request_review_comment": "/pull_request",
    "pull_request_review_thread": "/pull_request",
    "release": "/release",
    "label": "/label",
    "milestone": "/milestone",
    "repository": _HERE,
}
# After these an object's stamp is that of a state before; a payload's repository may be, too, but for its own event.
_LEAVING: Final = frozenset({"deleted", "transferred"})


def named(
    event: str, payload: Body, rows: Mapping[str, Row], source: str, is_ours: Callable[[Body], bool]
) -> tuple[Named, ...]:
    """Return the objects of *rows* that an event concerns, in repositories that are ours; first what it is about."""
    found: dict[ObjectRef, Named] = {}
    mentions = [(pointer, row) for row in rows.values() for pointer in row.topics.get(event, ())]
    for pointer, row in sorted(mentions, key=lambda mention: mention[0] != _SUBJECTS.get(event)):
        for each in _shown(event, payload, row, pointer, source, is_ours):
            found.setdefault(each.ref, each)
    return tuple(found.values())


def occurred_at(event: str, payload: Body) -> datetime | None:
    """Return the stamp of the object that an event is about; None where it has none."""
    return instant(content.find(payload, f"{_SUBJECTS[event]}/updated_at")) if event in _SUBJECTS else None


def number_of(value: JSON) -> str | None:
    """Return a number of GitHub's, an id or one that is counted in its repository, as text; None if it is none."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def stamp_of(row: Row, body: Body) -> datetime | None:
    """Return the stamp that *body* carries; None for unstamped kinds."""
    return instant(content.find(body, row.kind.stamp)) if row.kind.stamp else None


def locator_of(row: Row, body: Body) -> Body | None:
    """Return what calls about the object need besides its id: a label's name."""
    name = body.get("name")
    return {"name": name} if row.kind.name == "label" and isinstance(name, str) else None


def is_pull_request(body: Body) -> bool:
    """Say whether what looks like an issue is a pull request."""
    return body.get("pull_request") is not None


def _shown(  # noqa: PLR0917 - same as `named`
    event: str, payload: Body, row: Row, pointer: str, source: str, is_ours: Callable[[Body], bool]
) -> Iterator[Named]:
    shown, home = content.find(payload, pointer), content.find(payload, _HOMES.get(pointer, _HERE))
    home = content.find(payload, _HERE) if home is None else home
    if not isinstance(shown, dict) or not isinstance(home, dict) or not is_ours(home):
        return
    kind, id_, scope = row.kind.name, number_of(content.find(shown, row.key)), number_of(home.get("id"))
    if id_ is None or scope is None:
        return
    if pointer.endswith("issue") and is_pull_request(shown) is not (kind == "pull_request"):
        return
    stale = payload.get("action") in _LEAVING or (pointer == _HERE and event != "repository")
    ref = ObjectRef(source, "" if kind == "repository" else scope, kind, id_)
    yield Named(ref, None if stale else stamp_of(row, shown), locator_of(row, shown))
