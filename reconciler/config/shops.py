"""One table for many shops: a source for each of them, and what to ask of their objects besides."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from reconciler.config.values import Given

if TYPE_CHECKING:
    from collections.abc import Iterator

    from reconciler.config.files import Tree, Written

_NO_LABEL: Final = re.compile(r"[^a-z0-9-]")


def spread(written: Written) -> None:
    """
    Put a source for each of its shops in the place of each table that lists `shops`.

    It is named after the table and the first part of the shop's name. In the texts of the table `{shop}` stands for
    that part, and `{SHOP}` for it as it is spelled in variables. An endpoint that names the table means all of them.
    """
    made: dict[str, list[str]] = {}
    sources = written.lists["sources"]
    written.lists["sources"] = []
    for file, entry in sources:
        each = list(_each(entry, written.faults)) if "shops" in entry else [entry]
        written.lists["sources"] += [(file, one) for one in each]
        if "shops" in entry:
            made[str(entry.get("name"))] = [str(one["name"]) for one in each]
    for _, entry in written.lists["endpoints"]:
        named = entry.get("sources")
        if isinstance(named, list):
            entry["sources"] = [one for name in named for one in made.get(str(name), [name])]


def extra_fields(given: Given) -> dict[str, tuple[str, ...]]:
    """Read fields by kind; whether Shopify has them is asked of Shopify."""
    plain = given.plain()
    if not isinstance(plain, dict):
        raise ValueError(f'{plain!r} is no table; write one like {{ order = ["poNumber", "custom.gift_note"] }}')  # noqa: TRY004 - readers raise one type
    return {kind: tuple(each.text() for each in Given(listed).each()) for kind, listed in plain.items()}


def _each(entry: Tree, faults: list[str]) -> Iterator[Tree]:
    name = str(entry.get("name", ""))
    shops = entry["shops"]
    wrong = (
        "stands beside shop; write one of them"
        if "shop" in entry
        else 'is no list of shops; write one like ["berlin.myshopify.com", "paris.myshopify.com"]'
        if not isinstance(shops, list) or not shops or not all(isinstance(shop, str) and shop for shop in shops)
        else "names a shop twice; each shop is one source"
        if len(set(shops)) < len(shops)
        else ""
    )
    if wrong:
        faults.append(f"sources[{name}].shops: {wrong}")
        return
    for shop in shops:
        label = label_of(shop)
        shared = {key: _filled(value, label) for key, value in entry.items() if key != "shops"}
        yield shared | {"name": f"{name}-{label}", "shop": shop}


def label_of(shop: str) -> str:
    """Return the first part of a shop's name, as names of sources are spelled."""
    return _NO_LABEL.sub("-", re.sub(r"^https?://", "", shop.strip().lower()).partition(".")[0].strip("/"))


def _filled(value: object, label: str) -> object:
    if isinstance(value, str):
        return value.replace("{shop}", label).replace("{SHOP}", label.upper().replace("-", "_"))
    if isinstance(value, list):
        return [_filled(each, label) for each in value]
    if isinstance(value, dict):
        return {key: _filled(each, label) for key, each in value.items()}
    return value
