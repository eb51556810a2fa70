"""Three roles and the queries of the README: a schema its owner made, filled by the writer, seen by the reader."""

from __future__ import annotations

import json
import re
import time
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
import sqlalchemy

from reconciler import cli
from reconciler.bootstrap import every_kind
from reconciler.errors import ConfigError
from reconciler.store import views
from reconciler.store.database import connect
from reconciler.store.grants import Roles, grants
from reconciler.store.migrate import check, migrate
from tests.conftest import SCHEMA, _created, at
from tests.paths.cases import case_on
from tests.paths.test_sweep_many import in_scope, many

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.paths.cases import MakeCase

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
QUERIES = re.findall(
    r"```sql\n(.*?);\n```", README.partition("## Three real queries")[2].partition("\n## ")[0], re.DOTALL
)
NOBODY = psycopg.errors.InsufficientPrivilege
PAID_AT = int(datetime(2026, 10, 31, 23, 59, tzinfo=UTC).timestamp())
STRIPE = 'kinds = ["customer", "subscription", "invoice"]'
GITHUB = 'kinds = ["repository", "pull_request", "deployment"]'


@dataclass(frozen=True, slots=True)
class Governed:
    """
    A mirror with three roles.

    Attributes:
        admin: The URL of whoever made them.
        statement: What they were made by.
    """

    admin: str
    roles: Roles
    statement: str

    def url(self, role: str) -> str:
        """Return the URL of the mirror for *role*."""
        parsed = sqlalchemy.make_url(self.admin).set(username=role, password="standin")
        return parsed.render_as_string(hide_password=False)

    def select(self, role: str, statement: str, *parameters: Any) -> list[Any]:
        """Return the rows that *role* sees."""
        with psycopg.connect(self.url(role), autocommit=True) as connection:
            return connection.execute(statement.encode(), parameters or None).fetchall()


def grant(mirror: Governed) -> None:
    """Run what `reconcile grants` prints, as an administrator who reads it first does."""
    with psycopg.connect(mirror.admin, autocommit=True) as connection:
        connection.execute(mirror.statement.encode())
        for role in astuple(mirror.roles):
            connection.execute(f"ALTER ROLE \"{role}\" LOGIN PASSWORD 'standin'".encode())


@pytest.fixture(scope="module")
def mirror(server: str, names: Iterator[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Governed]:
    """Yield a mirror that the owner made and the writer filled, from deliveries and by a sweep."""
    with _created(server, next(names), template="template0") as name:
        roles = Roles(f"{name}-Owner", f"{name}_writer", f"{name}_reader")
        made = Governed(at(server, name), roles, grants(SCHEMA, roles))
        try:
            grant(made)
            bring_up(made)
            grant(made)
            folder = tmp_path_factory.mktemp("reports")
            fill_from_stripe(made, folder)
            fill_from_github(made, folder)
            yield made
        finally:
            with psycopg.connect(made.admin, autocommit=True) as connection:
                for role in astuple(roles):
                    connection.execute(f'DROP OWNED BY "{role}" CASCADE'.encode())
                    connection.execute(f'DROP ROLE "{role}"'.encode())


def bring_up(mirror: Governed) -> None:
    """Migrate as the owner."""
    owner = connect(mirror.url(mirror.roles.owner), schema=SCHEMA, connections=1)
    migrate(owner)
    views.make(owner, every_kind())
    check(owner)
    owner.close()


def fill_from_stripe(mirror: Governed, folder: Path) -> None:
    """Let the writer receive, drain and sweep what Stripe has."""
    with case_on(mirror.url(mirror.roles.writer), folder, "stripe", more=STRIPE) as case:
        for email, status in (("ann@example.com", "active"), ("bob@example.com", "past_due")):
            customer = case.act("create", "customer", body={"email": email})
            case.act("create", "subscription", body={"customer": customer, "status": status})
        for number in range(2):
            paid = {"paid_at": PAID_AT + number * 120}
            case.act("create", "invoice", body={"status": "paid", "amount_paid": 500, "status_transitions": paid})
        case.act("create", "invoice", body={"status": "open"})
        case.quiet()
        case.withheld("create", "customer")
        swept = case.sweep()
        assert swept.state == "complete", swept.report


def fill_from_github(mirror: Governed, folder: Path) -> None:
    """Let the writer sweep what GitHub has: one pull request merged before a deployment, one after it."""
    with case_on(mirror.url(mirror.roles.writer), folder, "github", more=GITHUB) as case:
        now = int(time.time())
        for title, merged in (("deployed", now - 3600), ("waiting", now - 600)):
            written = datetime.fromtimestamp(merged, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            case.act("create", "pull_request", at=merged - 600, body={"title": title, "merged_at": written})
        case.act("create", "pull_request", at=now, body={"title": "open"})
        case.act("create", "deployment", at=now - 1800)
        case.quiet()
        swept = case.sweep()
        assert swept.state == "complete", swept.report


# --- what the README asks ---


def test_who_may_log_in_now(mirror: Governed) -> None:
    """Customers whose subscription is active, and no others."""
    rows = mirror.select(mirror.roles.reader, QUERIES[0])

    assert [row[:2] for row in rows] == [("ann@example.com", "active")]
    assert all(row[3] > datetime.now(UTC) for row in rows)


def test_what_was_paid_by_month(mirror: Governed) -> None:
    """Paid invoices by month of UTC and by currency, in minor units."""
    rows = mirror.select(mirror.roles.reader, QUERIES[1])

    october, november = (datetime(2026, month, 1, tzinfo=UTC) for month in (10, 11))
    assert [(month, invoices, units) for month, _, invoices, units in rows] == [(october, 1, 500), (november, 1, 500)]


def test_what_was_merged_and_not_deployed(mirror: Governed) -> None:
    """Pull requests that were merged after the last deployment, with how far deployments are known."""
    [(repository, _, title, _, until)] = mirror.select(mirror.roles.reader, QUERIES[2])

    assert (repository, title) == ("acme/shop", "waiting")
    assert until <= datetime.now(UTC)


def test_a_query_refuses_what_is_stale(mirror: Governed) -> None:
    """The same query is an error once no sweep is recent enough."""
    stale = QUERIES[1].replace("26 hours", "0 seconds")

    assert stale != QUERIES[1]
    with pytest.raises(psycopg.errors.ObjectNotInPrerequisiteState, match="stripe-eu/invoice is swept until"):
        mirror.select(mirror.roles.reader, stale)


def test_a_light_pass_keeps_fresh_what_it_need_not_list(case_of: MakeCase) -> None:
    """Of many repositories those in which nothing moved count as swept; kinds that wait for the night do not."""
    case = case_of("github", more='organizations = ["acme"]')
    scopes = many(case, 30)
    in_scope(case, scopes[2], "issue")

    swept = case.sweep("issue", "label", trigger="light", light=True)

    covered = case.rows("SELECT scope, state FROM coverage(of_kind => 'issue') ORDER BY scope")
    assert swept.state == "complete", swept.report["because"]
    assert covered == [(scope, "complete") for scope in sorted(scopes)]
    assert case.rows("SELECT require_fresh('github_issue', '1 hour')") == [(True,)]
    with pytest.raises(sqlalchemy.exc.DBAPIError, match="label is swept until"):
        case.rows("SELECT require_fresh('github_label', '1 hour')")


# --- who may do what ---


@pytest.mark.parametrize(
    "hidden",
    [
        "SELECT payload FROM reconciler.webhook_events",
        "SELECT headers FROM reconciler.webhook_events",
        "SELECT raw FROM reconciler.webhook_events",
        "SELECT * FROM reconciler.webhook_events",
        "SELECT * FROM reconciler.tokens",
        "SELECT * FROM reconciler.subscription_secrets",
        "SELECT * FROM reconciler.configurations",
        "DELETE FROM reconciler.objects",
        "UPDATE reconciler.stripe_customer SET scope = ''",
        "SELECT reconciler.erase_source('stripe-eu')",
        "CREATE TABLE reconciler.theirs ()",
    ],
)
def test_what_the_reader_may_not(mirror: Governed, hidden: str) -> None:
    """No body of an event, no token, no secret, and nothing to be changed."""
    with pytest.raises(NOBODY):
        mirror.select(mirror.roles.reader, hidden)


def test_what_the_reader_may(mirror: Governed) -> None:
    """Every view, coverage, the mirror and its story, and of events all but what they say."""
    reader = mirror.roles.reader
    listed = mirror.select(reader, "SELECT table_name FROM information_schema.views WHERE table_schema = 'reconciler'")
    tables = ("objects", "object_history", "declined_writes", "drift", "runs", "watermarks", "event_objects")

    seen = {name: mirror.select(reader, f"SELECT count(*) FROM reconciler.{name}") for (name,) in listed}
    story = [mirror.select(reader, f"SELECT count(*) FROM reconciler.{name}") for name in tables]
    events = mirror.select(reader, "SELECT DISTINCT outcome FROM reconciler.webhook_events")

    assert len(seen) == 2 + sum(map(len, every_kind().values()))
    assert seen["stripe_customer"] == [(3,)]
    assert story[0] > [(0,)]
    assert ("done",) in events


def test_what_the_writer_may_not(mirror: Governed) -> None:
    """The schema is the owner's: the writer neither changes it nor says that it is another."""
    for refused in (
        "DROP VIEW reconciler.stripe_customer",
        "ALTER TABLE reconciler.objects ADD COLUMN theirs int",
        "DELETE FROM reconciler.reconciler_version",
        "DELETE FROM reconciler.typed_views",
        "TRUNCATE reconciler.objects",
        "CREATE TABLE reconciler.theirs ()",
    ):
        with pytest.raises(NOBODY):
            mirror.select(mirror.roles.writer, refused)


def test_an_upgrade_keeps_what_was_granted(mirror: Governed) -> None:
    """A view that the owner makes later may be read by the reader, and a new table changed by the writer."""
    kind = every_kind()["stripe"]["customer"]
    owner = connect(mirror.url(mirror.roles.owner), schema=SCHEMA, connections=1)
    views.make(owner, {"later": {"customer": kind}})
    owner.close()
    with psycopg.connect(mirror.url(mirror.roles.owner), autocommit=True) as connection:
        connection.execute("CREATE TABLE reconciler.later_table (n int)")
    try:
        assert mirror.select(mirror.roles.reader, "SELECT * FROM reconciler.later_customer") == []
        assert mirror.select(mirror.roles.writer, "INSERT INTO reconciler.later_table VALUES (1) RETURNING n") == [(1,)]
        with pytest.raises(NOBODY):
            mirror.select(mirror.roles.reader, "SELECT * FROM reconciler.later_table")
    finally:
        with psycopg.connect(mirror.url(mirror.roles.owner), autocommit=True) as connection:
            connection.execute("DROP TABLE reconciler.later_table")
            connection.execute("DROP VIEW reconciler.later_customer")
            connection.execute("DELETE FROM reconciler.typed_views WHERE name = 'later_customer'")


def test_everything_belongs_to_the_owner_also_afterwards(mirror: Governed) -> None:
    """What somebody else made before is given to the owner, by the same statement."""
    with psycopg.connect(mirror.admin, autocommit=True) as connection:
        connection.execute("CREATE TABLE reconciler.strange (n serial)")
        connection.execute("CREATE FUNCTION reconciler.strange() RETURNS int LANGUAGE sql AS 'SELECT 1'")

    grant(mirror)

    others = mirror.select(
        mirror.roles.owner,
        "SELECT relname FROM pg_class WHERE relnamespace = 'reconciler'::regnamespace AND relowner <> %s::regrole"
        " UNION ALL"
        " SELECT proname FROM pg_proc WHERE pronamespace = 'reconciler'::regnamespace AND proowner <> %s::regrole",
        f'"{mirror.roles.owner}"',
        f'"{mirror.roles.owner}"',
    )
    with psycopg.connect(mirror.admin, autocommit=True) as connection:
        connection.execute("DROP TABLE reconciler.strange; DROP FUNCTION reconciler.strange()")
    assert others == []


def test_the_command_prints_and_runs_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It needs no database, and prints what the roles that it is told need in the configured schema, also as JSON."""
    file = tmp_path / "reconciler.toml"
    file.write_text('[database]\nurl = "postgresql://nobody@127.0.0.1:1/none"\nschema = "theirs"\n')
    asked = ["grants", "--config", str(file), "--owner", "a", "--reader", "c"]

    codes = cli.main(asked), cli.main([*asked, "--format", "json"])

    printed = grants("theirs", Roles("a", "reconciler_writer", "c"))
    text, told = capfd.readouterr().out.rsplit("COMMIT;\n", 1)
    assert codes == (0, 0)
    assert text + "COMMIT;\n" == printed
    assert json.loads(told) == {
        "schema": "theirs",
        "owner": "a",
        "writer": "reconciler_writer",
        "reader": "c",
        "sql": printed,
    }


@pytest.mark.parametrize("name", ["", "a$grants$b", "a\nb", "x" * 64])
def test_names_that_cannot_be_those_of_roles(name: str) -> None:
    """What might leave its quotes is refused before anything is printed."""
    with pytest.raises(ConfigError, match="cannot be a role's name"):
        grants(SCHEMA, Roles("owner", name, "reader"))
