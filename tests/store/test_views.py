"""What reports read: the views of kinds, how far they can be relied on, and the refusal to show what is stale."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import sqlalchemy
from alembic import command

from reconciler.adapter import Column, Kind, Listing
from reconciler.bootstrap import every_kind
from reconciler.errors import ConfigError, DatabaseUnavailable
from reconciler.store import migrate as migrations
from reconciler.store import runs, sources, views
from reconciler.store.sources import State
from reconciler.store.views import Described

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.store.database import Database

NAME = Column("name", ("/name",), "text")
MOVED = Column("ends_at", ("/items/data/0/ends_at", "/ends_at"), "epoch")
LEADING = ["source", "scope", "id", "source_updated_at", "observed_at"]
_FILLED = (
    "webhook_events",
    "event_objects",
    "objects",
    "refetches",
    "runs",
    "watermarks",
    "swept",
    "sources",
    "mirrored_sources",
    "pauses",
    "typed_views",
)
SHOP, TEST_SHOP = "shop-live", "shop-test"


def kind(*columns: Column, name: str = "thing", test: str | None = None) -> Kind:
    """Return a kind with these columns."""
    return Kind(
        name=name,
        list=Listing.WHOLE,
        feed="",
        fetch="",
        deletion="",
        permission="",
        cost="",
        columns=columns,
        test=test,
    )


def of(*kinds: Kind) -> dict[str, dict[str, Kind]]:
    """Return *kinds* as those of a provider that this program does not know."""
    return {"acme": {each.name: each for each in kinds}}


def describe(database: Database, *names: str, tests: Sequence[str] = (), kinds: Sequence[str] = ("thing",)) -> None:
    """Let these be sources of that provider; *tests* show what is no production."""
    told = [Described(name, "acme", production=name not in tests, kinds=tuple(kinds)) for name in (*names, *tests)]
    database.commit(lambda connection: views.describe(connection, told))


def put(database: Database, id_: str, body: Any, *, source: str = SHOP, scope: str = "", name: str = "thing") -> None:
    """Let the mirror hold an object."""
    execute(
        database,
        "INSERT INTO objects (source, scope, kind, id, body) VALUES (%s, %s, %s, %s, %s::jsonb)",
        source,
        scope,
        name,
        id_,
        json.dumps(body),
    )


def execute(database: Database, statement: str, *parameters: Any) -> None:
    """Execute a statement in a transaction of its own, as the guard would."""
    with database.transaction() as connection:
        connection.exec_driver_sql("SET LOCAL reconciler.guard = 'on'")
        connection.exec_driver_sql(statement, parameters or None)


def select(database: Database, statement: str, *parameters: Any, tests: str = "") -> list[Any]:
    """Return the rows that a statement shows where `reconciler.test_rows` is *tests*."""
    with database.transaction() as connection:
        connection.exec_driver_sql("SELECT set_config('reconciler.test_rows', %s, true)", (tests,))
        return [tuple(row) for row in connection.exec_driver_sql(statement, parameters or None).all()]


def columns(database: Database, view: str) -> list[str]:
    """Return the names of a view's columns, in order."""
    with database.transaction() as connection:
        return list(connection.exec_driver_sql(f"SELECT * FROM {view} LIMIT 0").keys())


@pytest.fixture
def database(shared: Database) -> Database:
    """Return that database with no rows and no views in it, whatever the test before left."""
    with shared.transaction() as connection:
        connection.exec_driver_sql("SET LOCAL reconciler.guard = 'on'")
        left = connection.exec_driver_sql(
            "SELECT CASE relkind WHEN 'v' THEN 'VIEW ' ELSE 'TABLE ' END || oid::regclass FROM pg_class"
            " WHERE relnamespace = 'reconciler'::regnamespace AND relkind IN ('r', 'v')"
            " AND relname ~ '^(acme|stripe|shopify|github)_'"
        )
        for relation in left.scalars().all():
            connection.exec_driver_sql(f"DROP {relation} CASCADE")
        for table in _FILLED:
            connection.exec_driver_sql(f"DELETE FROM {table}")
    return shared


@pytest.fixture
def mirror(database: Database) -> Database:
    """Return a database with the view of a kind and a production source of it."""
    views.make(database, of(kind(NAME)))
    describe(database, SHOP)
    return database


# --- what a view shows ---


def test_every_kind_of_every_provider_has_a_view(database: Database) -> None:
    """Each is made once, has the columns of the table of kinds, and can be read."""
    known = every_kind()
    named = [(f"{provider}_{each.name}", each) for provider, kinds in known.items() for each in kinds.values()]

    made, again = views.make(database, known), views.make(database, known)

    assert made == [name for name, _ in named]
    assert again == []
    for name, each in named:
        shown = columns(database, name)
        assert shown[:5] == LEADING
        assert [column.removeprefix("stripe_") for column in shown[5:]] == [column.name for column in each.columns]
        assert select(database, f"SELECT * FROM {name}") == []
    assert columns(database, "stripe_balance_transaction")[5] == "stripe_source"


def test_a_view_shows_living_rows_of_its_provider(mirror: Database) -> None:
    """Tombstones, other kinds, and a kind of the same name at another provider are not there."""
    put(mirror, "1", {"name": "here"})
    put(mirror, "2", {"name": "gone"})
    put(mirror, "3", {"name": "other"}, name="other")
    put(mirror, "4", {"name": "elsewhere"}, source="of-nobody")
    execute(mirror, "UPDATE objects SET deleted_at = now() WHERE id = '2'")

    shown = select(mirror, "SELECT source, scope, id, name, observed_at IS NOT NULL FROM acme_thing")

    assert shown == [(SHOP, "", "1", "here", True)]


def test_a_view_shows_production_only(mirror: Database) -> None:
    """Of a provider with a production source no other is shown, unless the session asks; without one, all are."""
    describe(mirror, SHOP, tests=[TEST_SHOP])
    put(mirror, "1", {})
    put(mirror, "2", {}, source=TEST_SHOP)
    listed = "SELECT id FROM acme_thing ORDER BY id"

    mixed = [select(mirror, listed, tests=asked) for asked in ("", "on", "off")]
    describe(mirror, tests=[SHOP, TEST_SHOP])
    none_real = [select(mirror, listed, tests=asked) for asked in ("", "on", "off")]

    assert mixed == [[("1",)], [("1",), ("2",)], [("1",)]]
    assert none_real == [[("1",), ("2",)], [("1",), ("2",)], []]


def test_objects_that_are_only_tests_are_left_out(database: Database) -> None:
    """What its body calls a test is shown only where tests are asked for; what does not say is real."""
    views.make(database, of(kind(test="/test")))
    describe(database, SHOP)
    for id_, body in {"1": {"test": True}, "2": {"test": False}, "3": {}}.items():
        put(database, id_, body)

    shown = [select(database, "SELECT id FROM acme_thing ORDER BY id", tests=asked) for asked in ("", "on")]

    assert shown == [[("2",), ("3",)], [("1",), ("2",), ("3",)]]


@pytest.mark.parametrize(("state", "left"), [(State.REMOVED, 0), (State.RENAMED, 0), (State.LEFT_OUT, 1)])
def test_what_a_person_removed_is_not_shown(mirror: Database, state: State, left: int) -> None:
    """Rows that nothing keeps fresh by a person's decision are not shown; what a configuration forgot is."""
    put(mirror, "1", {})

    mirror.commit(lambda connection: sources.mark(connection, SHOP, state))

    assert select(mirror, "SELECT count(*) FROM acme_thing") == [(left,)]


def test_both_shapes_of_a_moved_field(database: Database) -> None:
    """The first pointer that holds something wins; a null holds nothing."""
    views.make(database, of(kind(MOVED)))
    describe(database, SHOP)
    put(database, "1", {"items": {"data": [{"ends_at": 10}]}, "ends_at": 20})
    put(database, "2", {"items": {"data": [{"ends_at": None}]}, "ends_at": 20})
    put(database, "3", {"items": {"data": []}, "ends_at": 20})
    put(database, "4", {"items": None})

    shown = select(database, "SELECT extract(epoch FROM ends_at)::int FROM acme_thing ORDER BY id")

    assert shown == [(10,), (20,), (20,), (None,)]


def test_k46_the_period_of_a_subscription(database: Database) -> None:
    """Stripe moved the period from a subscription to its items: the column is filled from either."""
    subscription = every_kind()["stripe"]["subscription"]
    views.make(database, of(subscription))
    describe(database, SHOP, kinds=[subscription.name])
    end = 1_800_000_000
    new, old = {"items": {"data": [{"current_period_end": end}]}}, {"current_period_end": end}
    for id_, body in (("new", new), ("old", old), ("neither", {"status": "active"})):
        put(database, id_, body, name=subscription.name)

    shown = select(database, "SELECT id, current_period_end FROM acme_subscription ORDER BY id")

    assert shown == [
        ("neither", None),
        ("new", datetime.fromtimestamp(end, UTC)),
        ("old", datetime.fromtimestamp(end, UTC)),
    ]


def at(text: str) -> datetime:
    """Return an instant of UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


FITS: Mapping[str, Sequence[tuple[str, Any]]] = {
    "text": [('"é"', "é"), ("12", "12"), ("1.50", "1.50"), ("true", "true"), ('""', "")],
    "boolean": [("true", True), ("false", False)],
    "bigint": [("0", 0), ("-7", -7), ("7.0", 7), ("1e3", 1000), ('"42"', 42), ("9223372036854775807", 2**63 - 1)],
    "numeric": [
        ("1.10", Decimal("1.10")),
        ('"19.99"', Decimal("19.99")),
        ('"-.5"', Decimal("-0.5")),
        ("1e2", Decimal(100)),
    ],
    "epoch": [("0", at("1970-01-01")), ('"86400"', at("1970-01-02")), ("1.5", at("1970-01-01T00:00:01.5"))],
    "date": [('"2024-02-29"', date(2024, 2, 29)), ('"9999-12-31"', date(9999, 12, 31))],
    "timestamptz": [
        ('"2026-11-30T22:07:34Z"', at("2026-11-30T22:07:34")),
        ('"2026-11-30T22:07:34.303+02:00"', at("2026-11-30T20:07:34.303")),
        ('"2000-02-29 00:00:00-0530"', at("2000-02-29T05:30")),
    ],
    "jsonb": [('{"a": [1]}', {"a": [1]}), ("0", 0)],
}
FITS_NOT: Mapping[str, Sequence[str]] = {
    "text": ["{}", "[]"],
    "boolean": ['"true"', "1", "{}"],
    "bigint": ["1.5", "9223372036854775808", "1e400", '"1.0"', '"x"', '""', "true", "[1]", '" 1"'],
    "numeric": ['"NaN"', '"1,5"', '""', '"."', '"1e9999"', "true", "{}", '"0x1"'],
    "epoch": ["1e20", "-1e20", '"now"', '"infinity"', "true", "{}"],
    "date": [
        '"2023-02-29"',
        '"1900-02-29"',
        '"2024-13-01"',
        '"0000-01-01"',
        '"today"',
        "20240101",
        '"2024-01-01T00:00:00Z"',
    ],
    "timestamptz": [
        '"2026-11-31T00:00:00Z"',
        '"2023-02-29T00:00:00Z"',
        '"2026-11-30T24:00:00Z"',
        '"2026-11-30T22:07:34"',
        '"2026-11-30T22:07:34+25:00"',
        '"0000-01-01T00:00:00Z"',
        '"now"',
        '"infinity"',
        '"2026-11-30"',
        "1700000000",
        "{}",
    ],
    "jsonb": [],
}


def test_a_value_that_does_not_fit_is_null(database: Database) -> None:
    """Each type shows what fits it exactly, and nothing where it does not fit: never an error."""
    for type_, fitting in FITS.items():
        for text, value in fitting:
            assert select(database, f"SELECT as_{type_}(%s::jsonb)", text) == [(value,)], (type_, text)
        for text in (*FITS_NOT[type_], "null"):
            assert select(database, f"SELECT as_{type_}(%s::jsonb)", text) == [(None,)], (type_, text)


def test_a_time_is_the_same_in_every_session(database: Database) -> None:
    """What is declared immutable does not depend on the time zone or the style of dates."""
    with database.transaction() as connection:
        connection.exec_driver_sql("SET LOCAL timezone = 'Asia/Kolkata'")
        connection.exec_driver_sql("SET LOCAL datestyle = 'German, DMY'")
        shown = connection.exec_driver_sql(
            """SELECT extract(epoch FROM as_timestamptz('"2026-01-02T03:04:05Z"'))::bigint"""
        ).scalar()

    assert shown == int(at("2026-01-02T03:04:05").timestamp())


# --- how a view changes ---


def test_a_column_in_the_middle_comes_at_the_end(mirror: Database) -> None:
    """An upgrade appends in the database whatever the table of kinds inserts, and what was built on the view stays."""
    execute(mirror, "CREATE VIEW public.report AS SELECT count(name) AS names FROM reconciler.acme_thing")
    put(mirror, "1", {"name": "a", "size": 3})
    size = Column("size", ("/size",), "bigint")

    made = views.make(mirror, of(kind(size, NAME)))

    assert made == ["acme_thing"]
    assert columns(mirror, "acme_thing") == [*LEADING, "name", "size"]
    assert select(mirror, "SELECT name, size FROM acme_thing") == [("a", 3)]
    assert select(mirror, "SELECT names FROM public.report") == [(1,)]
    assert views.make(mirror, of(kind(size, NAME))) == []


def test_what_is_gone_from_the_table_of_kinds_stays(mirror: Database) -> None:
    """A column that vanished is shown as before, a view whose kind vanished is left, and a new type has a new name."""
    put(mirror, "1", {"name": "12", "label": "a"})
    label = Column("label", ("/label",), "text")
    number = replace(NAME, type="bigint")

    views.make(mirror, of(kind(label)))
    views.make(mirror, of(kind(number)))
    views.make(mirror, of(kind(name="other")))

    assert columns(mirror, "acme_thing") == [*LEADING, "name", "label", "name_bigint"]
    assert select(mirror, "SELECT name, label, name_bigint FROM acme_thing") == [("12", "a", 12)]


def test_a_pointer_may_change(mirror: Database) -> None:
    """A field that moved is found at its new place, under the column it always had."""
    put(mirror, "1", {"names": ["b"], "a/b": {"~": "c"}})

    views.make(mirror, of(kind(replace(NAME, pointers=("/name", "/names/0")))))
    moved = select(mirror, "SELECT name FROM acme_thing")
    views.make(mirror, of(kind(replace(NAME, pointers=("/a~1b/~0",)))))

    assert moved == [("b",)]
    assert select(mirror, "SELECT name FROM acme_thing") == [("c",)]


def test_a_view_that_was_dropped_is_made_again(mirror: Database) -> None:
    """With all the columns that it had."""
    views.make(mirror, of(kind()))
    execute(mirror, "DROP VIEW acme_thing")

    assert views.make(mirror, of(kind())) == ["acme_thing"]
    assert columns(mirror, "acme_thing") == [*LEADING, "name"]


def test_kinds_that_make_no_view_are_refused_at_once(database: Database) -> None:
    """Names and types that cannot be are said, all of them, and nothing is made."""
    broken = kind(Column("a b", ("/a",), "text"), Column("n", ("/n",), "money"), Column("n", ("/m",), "text"))

    with pytest.raises(ConfigError) as refusal:
        views.make(
            database, {"acme": {"thing": broken}, "acme_x": {"y": kind(name="y")}, "acme_": {"x": kind(name="x_y")}}
        )
    with pytest.raises(ConfigError, match="several kinds"):
        views.make(database, {"a": {"b_c": kind(name="b_c")}, "a_b": {"c": kind(name="c")}})

    assert len(refusal.value.faults) == 3
    assert select(database, "SELECT name FROM typed_views") == []


@pytest.mark.parametrize(
    "stranger",
    [
        "CREATE TABLE acme_thing ()",
        "CREATE VIEW acme_thing AS SELECT 1 AS theirs",
        "CREATE VIEW acme_thing AS SELECT 'might be ours'::text AS source",
    ],
)
def test_what_is_in_the_way_is_not_touched(database: Database, stranger: str) -> None:
    """A relation of somebody else with the name of a view stops it, and is named."""
    execute(database, stranger)

    with pytest.raises(ConfigError, match=r"reconciler\.acme_thing exists and is not ours"):
        views.make(database, of(kind(NAME)))

    assert select(database, "SELECT name FROM typed_views") == []


def test_a_view_that_became_a_table_of_somebody_is_not_touched(mirror: Database) -> None:
    """What took the place of a view of ours is in the way as well."""
    execute(mirror, "DROP VIEW acme_thing")
    execute(mirror, "CREATE TABLE acme_thing (theirs int)")

    with pytest.raises(ConfigError, match="is not ours"):
        views.make(mirror, of(kind(NAME, MOVED)))

    assert columns(mirror, "acme_thing") == ["theirs"]


def test_a_view_in_use_is_waited_for_a_moment(mirror: Database) -> None:
    """Who is being read holds a change up no longer than the time-out, which is said as something that passes."""
    with psycopg.connect(mirror.url) as reader:
        reader.execute("SELECT * FROM reconciler.acme_thing")

        with pytest.raises(DatabaseUnavailable, match="try again"):
            views.make(mirror, of(kind(NAME, MOVED)), patience=timedelta(milliseconds=50))
    after = views.make(mirror, of(kind(NAME, MOVED)))

    assert after == ["acme_thing"]


def test_many_may_start_at_once(database: Database) -> None:
    """Of several that bring the same views up to date each is made by one, and all are content."""
    wanted = of(*(kind(NAME, name=f"thing_{number}") for number in range(6)))
    made: list[list[str]] = []
    threads = [threading.Thread(target=lambda: made.append(views.make(database, wanted))) for _ in range(4)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert len(made) == 4
    assert sorted(name for each in made for name in each) == [f"acme_thing_{number}" for number in range(6)]


@pytest.fixture
def guest(database: Database) -> Iterator[tuple[str, str]]:
    """Yield the name of a role that may connect and nothing else, and its URL."""
    url = sqlalchemy.make_url(database.url)
    name = f"guest_of_{url.database}"
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'standin'".encode())
        yield name, url.set(username=name, password="standin").render_as_string(hide_password=False)
        connection.execute(f"DROP OWNED BY {name}".encode())
        connection.execute(f"DROP ROLE {name}".encode())


def test_a_reader_of_views_needs_no_other_right(mirror: Database, guest: tuple[str, str]) -> None:
    """A view works by its owner's right, and a new one may be read by whoever may read coverage."""
    name, url = guest
    execute(mirror, f"GRANT USAGE ON SCHEMA reconciler TO {name}")
    execute(mirror, f"GRANT SELECT ON coverages TO {name}")
    put(mirror, "1", {"name": "a"})
    swept(mirror, scope="", state="complete")

    views.make(mirror, of(kind(NAME, name="later"), kind(NAME)))
    put(mirror, "2", {"name": "b"}, name="later")

    with psycopg.connect(url, autocommit=True) as reader:
        fresh = "SELECT name FROM reconciler.acme_later WHERE reconciler.require_fresh('thing', '1 hour')"
        assert reader.execute(fresh).fetchall() == [("b",)]
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("SELECT * FROM reconciler.objects")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            reader.execute("SELECT * FROM reconciler.acme_thing")  # made before it might read coverage


def test_a_mirror_that_was_there_before(empty_database: Database) -> None:
    """An upgrade knows the sources that were pinned, what they show, and how their kinds were swept last."""
    with migrations.alone(empty_database) as connection:
        connection.exec_driver_sql("CREATE SCHEMA reconciler")
        config = migrations._config("reconciler")
        config.attributes["connection"] = connection
        command.upgrade(config, "0005")
    pinned = "INSERT INTO accounts VALUES (%s, %s, 'acct', now())"
    for source, provider, body in (
        ("live", "stripe", {"livemode": True}),
        ("test", "stripe", {"livemode": False}),
        ("empty", "stripe", None),
        ("code", "github", {}),
    ):
        execute(empty_database, pinned, source, provider)
        if body is not None:
            put(empty_database, "1", body, source=source)
    told = {"kinds": [{"source": "code", "scope": "7", "kind": "thing", "state": "complete", "since": "2026-01-01"}]}
    execute(
        empty_database,
        "INSERT INTO runs (trigger, state, asked, tallies) VALUES ('nightly', 'complete', '{}', %s)",
        json.dumps(told),
    )
    execute(
        empty_database, "INSERT INTO shapes VALUES ('live', 'thing', 1, 'd', now()), ('live', 'thing', 2, 'e', now())"
    )

    migrations.migrate(empty_database)

    known = select(empty_database, "SELECT source, production, kinds FROM mirrored_sources ORDER BY source")
    assert known == [("code", True, []), ("empty", False, []), ("live", True, ["thing"]), ("test", False, [])]
    assert select(empty_database, "SELECT source, scope, kind, state FROM coverage('code')") == [
        ("code", "7", "thing", "complete")
    ]


# --- how far it can be relied on ---


def swept(
    database: Database,
    *lines: Mapping[str, Any],
    light: bool = False,
    run_state: str = "",
    until: str = "now()",
    **line: Any,
) -> int:
    """Let a run sweep the kind as *lines* say (one of them, made of *line*, where there are none); return its id."""
    told = [{"source": SHOP, "kind": "thing", "since": "2026-01-01", **each} for each in (lines or (line,))]
    states = [each["state"] for each in told]
    state = run_state or ("complete" if set(states) == {"complete"} else "incomplete")

    def end(connection: Any) -> int:
        begun = runs.begin(connection, [], trigger="cli", since=None, until=None, dry_run=False, asked={"light": light})
        for each in told:
            if each["state"] == "complete" and each["since"]:
                mark = (each["source"], each["scope"], each["kind"])
                connection.exec_driver_sql(
                    f"INSERT INTO watermarks VALUES (%s, %s, %s, {until})"
                    f" ON CONFLICT (source, scope, kind) DO UPDATE SET swept_until = {until}",
                    mark,
                )
        runs.finish(connection, begun.run_id, state=state, tallies={"kinds": told}, because=None)
        return int(begun.run_id)

    return database.commit(end)


def coverage(database: Database, *wanted: str) -> list[Any]:
    """Return scope and state of what `coverage()` shows, with these columns."""
    listed = "".join(f", {name}" for name in wanted)
    return select(database, f"SELECT scope, state{listed} FROM coverage()")


def fresh(database: Database, named: str = "thing", within: str = "1 hour", source: str | None = None) -> bool:
    """Say that the kind is fresh, or raise what the database raises."""
    [(answer,)] = select(database, "SELECT require_fresh(%s, %s::interval, %s)", named, within, source)
    return bool(answer)


def refused(database: Database, named: str = "thing", within: str = "1 hour", source: str | None = None) -> str:
    """Return the sentence by which the kind is refused."""
    with pytest.raises(sqlalchemy.exc.DBAPIError) as refusal:
        fresh(database, named, within, source)
    assert isinstance(refusal.value.orig, psycopg.Error)
    assert refusal.value.orig.sqlstate in {"55000", "22004"}
    return str(refusal.value.orig.diag.message_primary)


def test_coverage_of_a_kind_that_was_never_swept(mirror: Database) -> None:
    """It is there, not loaded, and nobody may rely on it; a kind that nobody mirrors is not there."""
    assert coverage(mirror, "loaded", "last_run", "swept_until") == [("", "never", False, None, None)]
    assert select(mirror, "SELECT count(*) FROM coverage(%s, '', 'nonsense')", SHOP) == [(0,)]
    assert "shop-live/thing was never swept whole" in refused(mirror)


def test_coverage_of_one_place(mirror: Database) -> None:
    """Source, scope and kind choose; a kind may be written as its view is called; what is left out means any."""
    run = swept(mirror, {"scope": "a", "state": "complete"}, {"scope": "b", "state": "incomplete"})

    asked = "SELECT scope, loaded, state, last_run FROM coverage"
    one = select(mirror, f"{asked}(%s, 'a', 'thing')", SHOP)
    by_view = select(mirror, f"{asked}(of_kind => 'acme_thing')")
    none = select(mirror, f"{asked}('another', 'a', 'thing')")

    assert one == [("a", True, "complete", run)]
    assert by_view == [("a", True, "complete", run), ("b", False, "incomplete", run)]
    assert none == []


def test_what_is_fresh(mirror: Database) -> None:
    """A complete sweep within the interval is fresh, by kind and by view, and also inside a query."""
    swept(mirror, scope="", state="complete")
    put(mirror, "1", {"name": "a"})

    shown = select(mirror, "SELECT name FROM acme_thing WHERE require_fresh('acme_thing', '2 hours')")

    assert fresh(mirror)
    assert fresh(mirror, "acme_thing", source=SHOP)
    assert shown == [("a",)]


def test_an_old_watermark_is_refused_even_where_no_row_is(mirror: Database) -> None:
    """A query over nothing is refused as well."""
    swept(mirror, scope="", state="complete", until="now() - interval '3 hours'")

    assert "is swept until" in refused(mirror)
    with pytest.raises(sqlalchemy.exc.DBAPIError, match="is swept until"):
        select(mirror, "SELECT name FROM acme_thing WHERE require_fresh('thing', '1 hour')")
    assert fresh(mirror, within="4 hours")


def test_an_incomplete_sweep_is_refused(mirror: Database) -> None:
    """However fresh the watermark before it is, until a later sweep is complete."""
    swept(mirror, scope="", state="complete")
    run = swept(mirror, scope="", state="incomplete")

    assert f"the newest sweep of shop-live/thing, run {run}, is incomplete" in refused(mirror)
    swept(mirror, scope="", state="complete")
    assert fresh(mirror)


def test_a_run_that_was_abandoned_is_refused(mirror: Database) -> None:
    """What it had not ended counts as the run does."""
    swept(mirror, scope="", state="complete")
    swept(mirror, scope="", state="running", run_state="abandoned")

    assert "is abandoned" in refused(mirror)


def test_dry_runs_sweep_nothing(mirror: Database) -> None:
    """What a dry run found says nothing of what is here."""
    swept(mirror, scope="", state="complete")

    def end(connection: Any) -> None:
        begun = runs.begin(connection, [], trigger="cli", since=None, until=None, dry_run=True, asked={})
        told = {"kinds": [{"source": SHOP, "scope": "", "kind": "thing", "state": "incomplete"}]}
        runs.finish(connection, begun.run_id, state="incomplete", tallies=told, because=None)

    mirror.commit(end)

    assert fresh(mirror)


def test_an_open_event_is_refused_when_it_is_old(mirror: Database) -> None:
    """One about the kind counts until the object is read beyond it; one about another kind does not."""
    swept(mirror, scope="", state="complete")
    execute(
        mirror,
        "INSERT INTO webhook_events (source, event_id, event_type, payload, headers, received_at)"
        " VALUES (%s, 'evt_1', 'changed', '{}', '{}', now() - interval '2 hours')",
        SHOP,
    )
    execute(mirror, "INSERT INTO event_objects VALUES (%s, 'evt_1', '', 'other', '1', 5)", SHOP)
    other = fresh(mirror)
    execute(mirror, "INSERT INTO event_objects VALUES (%s, 'evt_1', '', 'thing', '1', 5)", SHOP)

    sentence = refused(mirror)
    lenient = fresh(mirror, within="3 hours")
    execute(
        mirror,
        "INSERT INTO refetches (source, kind, id, wanted, done, reason, due_at)"
        " VALUES (%s, 'thing', '1', 5, 5, 'webhook', now())",
        SHOP,
    )

    assert other
    assert "an event about shop-live/thing is open since" in sentence
    assert lenient
    assert fresh(mirror)


def test_every_source_must_be_fresh(mirror: Database) -> None:
    """One that the views show and that is stale makes the kind stale; tests and removed ones do not."""
    describe(mirror, SHOP, "shop-two", tests=[TEST_SHOP])
    swept(mirror, scope="", state="complete")

    assert "shop-two/thing was never swept whole" in refused(mirror)
    assert fresh(mirror, source=SHOP)
    mirror.commit(lambda connection: sources.mark(connection, "shop-two", State.REMOVED))
    assert fresh(mirror)


def test_a_kind_that_nobody_mirrors_is_refused(mirror: Database) -> None:
    """A slip of the pen is not fresh; nor is nothing."""
    assert refused(mirror, "thimg") == "no source that the views show mirrors thimg"
    assert refused(mirror, "thing", source="nowhere") == "no source that the views show mirrors thing of nowhere"
    with pytest.raises(sqlalchemy.exc.DBAPIError, match="needs a kind and an interval"):
        select(mirror, "SELECT require_fresh('thing', NULL)")


def test_many_reasons_are_counted(mirror: Database) -> None:
    """Three are told, and how many more there are."""
    describe(mirror, SHOP, *(f"shop-{number}" for number in range(5)))

    sentence = refused(mirror)

    assert sentence.startswith("thing is not fresh within 01:00:00: shop-0/thing was never swept whole; ")
    assert sentence.endswith("; and 3 more")


def test_a_scope_that_is_gone_holds_nothing_up(mirror: Database) -> None:
    """One that the newest whole listing does not know is left out; a light pass need not name all that it knows."""
    swept(
        mirror,
        {"scope": "a", "state": "complete"},
        {"scope": "b", "state": "complete"},
        until="now() - interval '1 day'",
    )
    swept(mirror, {"scope": "a", "state": "complete"}, {"scope": "", "state": "complete", "since": None}, light=True)
    light = coverage(mirror)
    swept(mirror, {"scope": "a", "state": "complete"})

    assert light == [("a", "complete"), ("b", "complete")]
    assert coverage(mirror) == [("a", "complete"), ("b", "left_out")]
    assert fresh(mirror)


def test_scopes_that_could_not_be_told(mirror: Database) -> None:
    """A sweep that did not learn its scopes is refused, until one did."""
    swept(mirror, {"scope": "a", "state": "complete"})
    swept(mirror, {"scope": "", "state": "incomplete", "since": None}, light=True)
    unknown = refused(mirror)
    swept(mirror, {"scope": "", "state": "complete", "since": None}, light=True)

    assert "the newest sweep of shop-live/thing" in unknown
    assert fresh(mirror)


def test_a_scope_in_which_nothing_moved_is_complete_again(mirror: Database) -> None:
    """A watermark that moved beyond an incomplete sweep says that all was seen since."""
    swept(mirror, {"scope": "a", "state": "complete"})
    swept(mirror, {"scope": "a", "state": "incomplete"})

    execute(mirror, "UPDATE watermarks SET swept_until = clock_timestamp()")

    assert coverage(mirror) == [("a", "complete")]


def test_dead_letters_are_counted(mirror: Database) -> None:
    """Objects that were given up are told, and refuse nothing: the alarm about them stands elsewhere."""
    swept(mirror, scope="", state="complete")
    execute(
        mirror,
        "INSERT INTO refetches (source, kind, id, wanted, reason, due_at, dead_at)"
        " VALUES (%s, 'thing', '1', 5, 'webhook', now(), now())",
        SHOP,
    )

    assert coverage(mirror, "dead") == [("", "complete", 1)]
    assert fresh(mirror)


def test_what_a_source_is_follows_its_life(mirror: Database) -> None:
    """A source that is renamed is shown under its new name, with its coverage; one that is erased is forgotten."""
    put(mirror, "1", {})
    swept(mirror, scope="", state="complete")

    mirror.commit(lambda connection: sources.rename(connection, SHOP, "shop-new"))
    renamed = select(mirror, "SELECT source FROM acme_thing")
    covered = select(mirror, "SELECT source, state FROM coverage()")
    mirror.commit(lambda connection: sources.erase(connection, "shop-new"))

    assert (renamed, covered) == ([("shop-new",)], [("shop-new", "complete")])
    assert select(mirror, "SELECT source FROM coverage()") == []
