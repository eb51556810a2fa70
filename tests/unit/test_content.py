"""JSON parsed, cleaned, compared: exact, storable, and deaf to spelling."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reconciler.content import MAX_DEPTH, Form, clean, differences, dumps, find, parse, without

if TYPE_CHECKING:
    from reconciler.model import JSON

texts = st.text(max_size=8)
numbers = st.integers() | st.decimals(allow_nan=False, allow_infinity=False)
leaves = st.none() | st.booleans() | numbers | texts


def _grown(children: st.SearchStrategy[JSON]) -> st.SearchStrategy[JSON]:
    return st.lists(children, max_size=4) | st.dictionaries(texts, children, max_size=4)


trees = st.recursive(leaves, _grown, max_leaves=20)
bodies = st.dictionaries(texts, trees, max_size=5)


def respelled(tree: JSON, draw: st.DrawFn) -> str:
    """Write *tree* with keys in any order, any spacing, and numbers and characters spelled any way."""
    if isinstance(tree, dict):
        keys = draw(st.permutations(list(tree)))
        pairs = (f"{json.dumps(key, ensure_ascii=draw(st.booleans()))} : {respelled(tree[key], draw)}" for key in keys)
        return "{\n" + ",\t".join(pairs) + "}"
    if isinstance(tree, list):
        return "[ " + " ,".join(respelled(each, draw) for each in tree) + "]"
    if isinstance(tree, str):
        return json.dumps(tree, ensure_ascii=draw(st.booleans()))
    if isinstance(tree, int) and not isinstance(tree, bool):
        return draw(st.sampled_from([str(tree), f"{tree}.0", f"{tree}.000", f"{tree * 10}e-1", f"{tree}E0"]))
    return dumps(tree)


@st.composite
def spellings(draw: st.DrawFn) -> tuple[JSON, str]:
    """Draw a body and another spelling of it."""
    body = draw(bodies)
    return body, respelled(body, draw)


@given(trees)
def test_parse_reads_what_dumps_wrote(tree: JSON) -> None:
    """Writing and parsing again loses nothing, to the last digit."""
    assert dumps(parse(dumps(tree))) == dumps(tree)
    assert parse(dumps(tree).encode()) == tree


@pytest.mark.parametrize(
    "number", ["9007199254740993", "0.10", "-0.0", "1E+400", "1e-7", "123456789012345678901234.50"]
)
def test_parse_is_exact(number: str) -> None:
    """No number passes through a float: ids beyond 2**53 and the last zero of an amount survive."""
    assert Decimal(dumps(parse(f'{{"a":{number}}}'))[5:-1]) == Decimal(number)
    assert not isinstance(parse(number), float)


def test_parse_keeps_the_spelling_of_money() -> None:
    """A round trip writes an id and an amount as the provider wrote them."""
    body = '{"id":9007199254740993,"total":"0.10","rate":0.10}'

    assert dumps(parse(body)) == body


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b" ",
        b"{",
        b"[1,]",
        b"NaN",
        b'{"a":Infinity}',
        b"[-Infinity]",
        b"{}{}",
        b"\xff\xfe",
        b'"\xed\xa0\x80"',
        b"'a'",
        b"01",
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
    ],
)
def test_parse_refuses(raw: bytes) -> None:
    """What is not one JSON text in UTF-8 is a ValueError, never another error."""
    with pytest.raises(ValueError):  # noqa: PT011 - the promise is the type
        parse(raw)


@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_parse_raises_nothing_else(raw: bytes) -> None:
    """Whatever the bytes, parsing ends in a tree or a ValueError."""
    try:
        tree = parse(raw)
    except ValueError:
        return

    assert parse(dumps(tree)) == tree


@given(trees)
def test_clean_changes_nothing_storable(tree: JSON) -> None:
    """A tree that needs no cleaning comes back equal, and says so."""
    cleaned, changed = clean(tree)

    assert changed or cleaned == tree
    assert clean(cleaned) == (cleaned, False)


@given(
    st.recursive(
        st.text(alphabet=st.sampled_from(["\0", "\ud800", "\udfff", "a"]), max_size=3),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(alphabet=st.sampled_from(["\0", "\ud800", "a"]), max_size=2), inner, max_size=4)
        ),
    )
)
def test_clean_leaves_nothing_unstorable(tree: JSON) -> None:
    """After cleaning nothing is left that PostgreSQL refuses, and no key of an object is lost."""
    cleaned, changed = clean(tree)

    dumps(cleaned).encode()
    assert "\0" not in dumps(cleaned)
    assert "\\u0000" not in dumps(cleaned)
    assert len(_keys(cleaned)) == len(_keys(tree))
    assert changed is (dumps(cleaned) != dumps(tree))


def _keys(tree: JSON) -> list[str]:
    if isinstance(tree, dict):
        return [*tree, *(key for value in tree.values() for key in _keys(value))]
    return [key for each in tree for key in _keys(each)] if isinstance(tree, list) else []


def test_clean_replaces_nul_in_the_tree_only() -> None:
    """NUL goes, in keys too; six characters that merely spell it stay."""
    body = parse(rb'{"a":"x\u0000y","b":"\\u0000","k\u0000":1}')

    cleaned, changed = clean(body)

    assert changed
    assert cleaned == {"a": "x\ufffdy", "b": "\\u0000", "k\ufffd": 1}
    assert clean(body) == (cleaned, changed)


def test_clean_keeps_keys_apart() -> None:
    """Two keys that become one by cleaning both stay."""
    cleaned, _ = clean(parse(r'{"k\u0000": 1, "k\ud800": 2, "k\ufffd": 3}'))

    assert sorted(cleaned.values()) == [1, 2, 3]


@pytest.mark.parametrize(
    "number", ["1e131072", "1e-16384", "1e999999999999999999", "-1e9999999999999999999999", "0e99999999999999999999"]
)
def test_clean_turns_numbers_beyond_numeric_into_text(number: str) -> None:
    """A number that PostgreSQL's numeric cannot hold is kept as text, and the change is told."""
    cleaned, changed = clean(parse(f'{{"a":{number}}}'))

    assert changed
    assert isinstance(cleaned["a"], str)
    assert type(cleaned["a"]) is str


@pytest.mark.parametrize("number", ["1e131071", "1e-16383", "1" * 5000])
def test_clean_keeps_what_numeric_holds(number: str) -> None:
    """The largest and smallest numbers that numeric holds stay numbers."""
    assert clean(parse(f'{{"a":{number}}}'))[1] is False


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_clean_takes_any_depth(opening: str) -> None:
    """Whatever could be parsed can be cleaned: what is too deep becomes text that says the same."""
    closing = {"[": "]", '{"a":': "}"}[opening]
    for depth in (1, MAX_DEPTH, MAX_DEPTH + 1, 500, 800, 900, 950, 990):
        raw = opening * depth + "null" + closing * depth
        try:
            tree = parse(raw)
        except ValueError:
            continue

        cleaned, changed = clean(tree)

        assert changed is (depth > MAX_DEPTH)
        assert dumps(cleaned).replace('\\"', '"').count(opening) == depth
        Form().digest({"tree": cleaned})


@given(st.lists(trees, max_size=3), bodies)
def test_clean_writes_deep_trees_as_dumps_does(listed: list[JSON], body: JSON) -> None:
    """What stands where a tree was too deep is that tree's JSON."""
    inner = [listed, body, [], {}]
    tree: JSON = inner
    for _ in range(MAX_DEPTH):
        tree = [tree]

    cleaned, changed = clean(tree)
    for _ in range(MAX_DEPTH):
        cleaned = cleaned[0]

    assert changed
    assert cleaned == clean(dumps(inner))[0]


@given(spellings())
def test_digest_ignores_spelling(both: tuple[JSON, str]) -> None:
    """Key order, white space, escapes and number spelling change no digest and are no difference."""
    body, spelling = both
    form = Form()

    assert form.digest(form.stored(parse(spelling))) == form.digest(form.stored(body))
    assert differences(form.stored(body), form.stored(parse(spelling))) == []


@given(bodies, bodies)
def test_digest_and_differences_agree(one: JSON, other: JSON) -> None:
    """Two bodies have one digest exactly when they have no difference."""
    form = Form()
    ours, theirs = form.stored(one), form.stored(other)

    assert (form.digest(ours) == form.digest(theirs)) is (differences(ours, theirs) == [])


def test_differences_point_at_each_place() -> None:
    """Each difference has a pointer, both sides, and says which side has nothing there."""
    ours = parse('{"a":1.0,"b":[1,2],"c":{"d/e":1},"gone":null}')
    theirs = parse('{"b":[2,1],"a":1,"c":{"d/e":2},"new~":[]}')

    assert differences(ours, theirs) == [
        {"path": "/b/0", "ours": 1, "theirs": 2},
        {"path": "/b/1", "ours": 2, "theirs": 1},
        {"path": "/c/d~1e", "ours": 1, "theirs": 2},
        {"path": "/gone", "ours": None, "theirs": None, "absent": "theirs"},
        {"path": "/new~0", "ours": None, "theirs": [], "absent": "ours"},
    ]


@pytest.mark.parametrize(
    ("one", "other"), [("true", "1"), ("false", "0"), ("null", "0"), ('"1"', "1"), ("[]", "{}"), ('""', "null")]
)
def test_digest_tells_types_apart(one: str, other: str) -> None:
    """Values that Python calls equal, or empty, but JSON does not, differ."""
    form = Form()

    assert form.digest({"a": parse(one)}) != form.digest({"a": parse(other)})
    assert len(differences({"a": parse(one)}, {"a": parse(other)})) == 1


def test_digest_sorts_only_what_is_unordered() -> None:
    """The order of an array counts unless the kind declares that it means nothing; how often a value stands does."""
    plain, bag = Form(), Form(unordered=("/b", "/c/*/d"))

    assert plain.digest({"b": [1, 2]}) != plain.digest({"b": [2, 1]})
    assert bag.digest({"b": [1, 2]}) == bag.digest({"b": [2, 1]})
    assert bag.digest({"b": [1, 1, 2]}) != bag.digest({"b": [1, 2, 2]})
    assert bag.digest({"c": [{"d": [1, "1"]}]}) == bag.digest({"c": [{"d": ["1", 1]}]})


def test_digest_leaves_out_the_volatile_but_stores_it() -> None:
    """A volatile field is stored and not compared; an omitted one is neither."""
    form = Form(omit=("/phone", "/c/*/secret"), volatile=("/url",))
    stored = form.stored({"phone": "1", "url": "a", "c": [{"secret": 1, "x": 2}]})

    assert stored == {"url": "a", "c": [{"x": 2}]}
    assert form.digest(stored) == form.digest(form.stored({"url": "b", "c": [{"x": 2}]}))


@given(bodies)
def test_stored_does_not_touch_its_argument(body: JSON) -> None:
    """Storing and comparing leave the given body as it was."""
    before = dumps(body)
    form = Form(omit=("/a", "/*/b"), volatile=("/c",), unordered=("/*",))

    form.digest(form.stored(body))

    assert dumps(body) == before


@pytest.mark.parametrize(
    ("pointer", "found"),
    [("", {"a/b": [{"~": 1}]}), ("/a~1b/0/~0", 1), ("/a~1b/1", None), ("/x/y", None), ("/a~1b/-", None)],
)
def test_find_follows_pointers(pointer: str, found: JSON) -> None:
    """A pointer shows what is there, or None."""
    assert find({"a/b": [{"~": 1}]}, pointer) == found


def test_without() -> None:
    """Fields of these names go wherever they are, but where they are spared; a tree without any is returned itself."""
    tree = {"a": [{"b": 1, "c": 2}], "m": {"b": 3}, "b": {"d": 4}}

    assert without(tree, {"b"}, but_in="m") == {"a": [{"c": 2}], "m": {"b": 3}}
    assert without(tree, {"x"}) is tree
