"""What another API version would change: a few objects of each kind, read in both."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from reconciler import content
from reconciler.errors import AccessLost, SourceRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from reconciler.adapter import Adapter, Column, Kind
    from reconciler.model import JSON, Body
    from reconciler.store.samples import Sample

UNREADABLE: Final = "unreadable"
GONE, NEW, TYPE = "field_gone", "field_new", "field_type"
COLUMN: Final = "column"

_SHOWN: Final = 60  # characters of a value
_TYPES: Final = ((bool, "truth"), (str, "text"), (list, "list"), (dict, "object"))


@dataclass(frozen=True, slots=True, order=True)
class Change:
    """
    One thing that would be otherwise.

    Attributes:
        what: `unreadable`, `field_gone`, `field_new`, `field_type` or `column`.
        where: A JSON pointer with `*` for any place in a list, or the column's name; empty where it is the kind.
        because: From what to what, or why it cannot be read.
    """

    kind: str
    what: str
    where: str
    because: str


def compared(
    ours: Adapter, theirs: Adapter, samples: Mapping[str, Iterable[Sample]], *, seen: Callable[[str], None]
) -> dict[Change, int]:
    """
    Return what differs between these objects as two adapters of one source show them, and in how many of them.

    Calls *seen* with the kind of each object that was read. Raises a `SourceError` where ours cannot be read.
    """
    found: Counter[Change] = Counter()
    for name, chosen in samples.items():
        for sample in chosen:
            found.update(set(_of_object(ours, theirs, ours.kinds[name], sample)))
            seen(name)
    return dict(sorted(found.items()))


def fields(body: JSON, at: str = "") -> Iterator[tuple[str, str]]:
    """Yield the pointer and the type of everything in *body*; null has no type, and says nothing of one."""
    inner = body.items() if isinstance(body, dict) else [("*", each) for each in body] if isinstance(body, list) else ()
    for name, value in inner:
        pointer = f"{at}/{name}"
        yield pointer, _type_of(value)
        yield from fields(value, pointer)


def changes(kind: Kind, ours: Body, theirs: Body) -> Iterator[Change]:
    """Yield what differs in the fields and the columns of one object; of a field that went, not what was in it."""
    before, after = _types(ours), _types(theirs)
    for what, has, lacks in ((GONE, before, after), (NEW, after, before)):
        for pointer in has.keys() - lacks.keys():
            if pointer.rpartition("/")[0] in lacks.keys() | {""}:
                yield Change(kind.name, what, pointer, " or ".join(sorted(has[pointer])) or "null")
    for pointer in before.keys() & after.keys():
        if before[pointer] and after[pointer] and before[pointer].isdisjoint(after[pointer]):
            because = f"{' or '.join(sorted(before[pointer]))}, then {' or '.join(sorted(after[pointer]))}"
            yield Change(kind.name, TYPE, pointer, because)
    for column in kind.columns:
        was, then = _shown(column, ours), _shown(column, theirs)
        if was != then and not set(column.pointers) & set(kind.volatile):
            yield Change(kind.name, COLUMN, column.name, f"{was}, then {then}")


def _of_object(ours: Adapter, theirs: Adapter, kind: Kind, sample: Sample) -> Iterator[Change]:
    before = ours.fetch(sample.ref, locator=sample.locator)
    if before.body is None:
        return  # gone since, which is no question of versions
    try:
        after = theirs.fetch(sample.ref, locator=sample.locator)
    except (SourceRefused, AccessLost) as error:
        yield Change(kind.name, UNREADABLE, "", str(error))
        return
    if after.body is None:
        yield Change(kind.name, UNREADABLE, "", after.because)
    else:
        yield from changes(kind, before.body, after.body)


def _types(body: Body) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for pointer, type_ in fields(body):
        found.setdefault(pointer, set()).update({type_} - {""})
    return found


def _type_of(value: JSON) -> str:
    return "" if value is None else next((name for cls, name in _TYPES if isinstance(value, cls)), "number")


def _shown(column: Column, body: Body) -> str:
    """Return what a column would show, as text."""
    values = (content.find(body, pointer) for pointer in column.pointers)
    text = content.dumps(next((value for value in values if value is not None), None))
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
