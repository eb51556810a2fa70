"""The watchdog over real HTTP: subscriptions lost and mended, deliveries that failed, silence, words of deprecation."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import pytest
from structlog.testing import capture_logs

from reconciler import config
from reconciler.bootstrap.watching import watched
from reconciler.store import findings, redeliveries, sources, story
from reconciler.store.findings import Finding, Silence, What
from reconciler.store.vouching import Vouching
from reconciler.watchdog import Hearing
from reconciler.watchdog.silence import LEAST, Listening, why
from tests.adapters.grudging import Grudging
from tests.paths.cases import HOOK, SECRET, ago

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from reconciler.adapter import Adapter
    from reconciler.store.database import Database
    from tests.paths.cases import Case, MakeCase

EVERY = ("stripe", "github", "shopify")
NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


def watch(case: Case, url: str = "", *, manage: bool = False) -> None:
    """Let the program think that it is reached at *url*, or where it is."""
    [before] = case.program.watchdog._watched
    addresses = {url or case.inbox: case.source}
    case.program.watchdog._watched = (replace(before, addresses=addresses, manage=manage, secret=SECRET),)


def turn(case: Case, later: timedelta = timedelta(0)) -> None:
    """Let the watchdog look as if it were so much later."""
    case.program.watchdog.turn(datetime.now(UTC) + later)


def alarms(case: Case) -> dict[str, str]:
    """Return what stands of the watchdog's alarms, with the reasons."""
    with case.program.database.transaction() as connection:
        found = story.alarms(connection, {case.source: ()})
    return {each.what: each.because for each in found if each.because}


def unsubscribe(case: Case) -> None:
    """Let nothing at the provider point anywhere."""
    case.sandbox.machinery.deliveries.endpoints = ()


# Subscriptions


@pytest.mark.parametrize("provider", EVERY)
def test_a_lost_subscription_is_an_alarm_until_it_is_back(case_of: MakeCase, provider: str) -> None:
    """What is missing, where, and the way out are named in the log once a day, and in an alarm as long as it is so."""
    case = case_of(provider)
    watch(case)
    before = case.sandbox.machinery.deliveries.endpoints
    unsubscribe(case)

    turn(case)
    turn(case, timedelta(days=2))
    lost, said = alarms(case)["subscription_lost"], len(case.logged("subscription.lost"))
    topic = case.adapter.kinds[next(iter(case.adapter.kinds))].topics[0]
    case.sandbox.machinery.deliveries.endpoints = before
    turn(case, timedelta(days=4))

    assert said == 1
    assert case.inbox in lost
    assert topic in lost
    assert "manage_webhooks" in lost
    assert provider == "shopify" or alarms(case) == {}
    assert case.sandbox.machinery.deliveries.endpoints == before


def test_a_paused_source_is_left_alone(case_of: MakeCase) -> None:
    """While a person pauses a source nothing is asked of its provider, mended or alarmed; after it all is as before."""
    case = case_of("stripe")
    watch(case, manage=True)
    unsubscribe(case)
    case.program.database.commit(
        lambda c: findings.find(c, Finding(case.source, What.SILENCE, "notifications", "it is silent"))
    )
    case.program.database.commit(lambda c: sources.pause(c, case.source, until=None, because="moving"))
    before = len(case.calls())

    turn(case)
    turn(case, timedelta(days=2))
    calls, during, made = len(case.calls()) - before, set(alarms(case)), case.logged("subscription.mended")
    case.program.database.commit(lambda c: sources.resume(c, case.source))
    turn(case)

    assert (calls, during, made) == (0, {"paused"}, [])
    assert len(case.logged("subscription.mended")) == 1


def test_status_shows_the_alarm_with_its_reason(case_of: MakeCase) -> None:
    """People read in `status` what is wrong and what to do, and nothing besides in the alarms that say it already."""
    case = case_of("stripe")
    watch(case)
    unsubscribe(case)

    turn(case)

    with case.program.database.transaction() as connection:
        told = {each.what: story.alarm(each) for each in story.alarms(connection, {case.source: ["customer"]})}
    assert case.inbox in told["subscription_lost"]["because"]
    assert set(told["never_swept"]) == {"what", "source", "since"}


@pytest.mark.parametrize("provider", ["stripe", "github"])
def test_a_managed_subscription_is_made_and_delivers(case_of: MakeCase, provider: str) -> None:
    """With `manage_webhooks` it is made; what it sends is believed, though nobody configured a secret for Stripe's."""
    case = case_of(provider, **({"secrets": ["whsec_anotherstandin"]} if provider == "stripe" else {}))
    watch(case, manage=True)
    unsubscribe(case)

    turn(case)
    kind = {"stripe": "customer", "github": "issue"}[provider]
    id_ = case.act("create", kind)
    case.flush()

    assert alarms(case) == {}
    [line] = case.logged("subscription.mended")
    assert case.inbox in line["because"]
    assert any(outcome is None for outcome in case.outcomes())
    case.work(lambda: bool(case.stands(kind, id_)))
    turn(case, timedelta(days=2))
    assert len(case.logged("subscription.mended")) == 1
    kept = Vouching(case.program.database)
    kept.look()
    assert len(kept.secrets(case.source)) == (provider == "stripe")
    assert not [line for line in case.lines if any(secret in str(line) for secret in kept.secrets(case.source))]


def test_what_points_elsewhere_is_never_touched(case_of: MakeCase) -> None:
    """A subscription to another address stays as it is, however it is, and does not count."""
    case = case_of("stripe")
    case.control(
        "PUT", "/webhooks", {"id": "we_theirs", "url": "https://example.com/x", "secret": "s", "enabled": False}
    )
    [theirs] = case.sandbox.machinery.deliveries.endpoints
    watch(case, manage=True)

    turn(case)

    assert case.sandbox.machinery.deliveries.endpoints[0] == theirs
    assert len(case.sandbox.machinery.deliveries.endpoints) == 2


def test_what_cannot_be_mended_says_so(case_of: MakeCase) -> None:
    """Where the provider refuses to have it mended, that is the alarm, and the way out."""
    case = case_of("github")
    watch(case, manage=True)
    case.program.watchdog._watched = (replace(case.program.watchdog._watched[0], secret=None),)
    unsubscribe(case)

    turn(case)

    assert "webhook_secrets" in alarms(case)["subscription_lost"]
    assert case.sandbox.machinery.deliveries.endpoints == ()


def test_without_a_public_url_nothing_is_checked(case_of: MakeCase) -> None:
    """It is said once that there is nothing to compare with, and nobody is asked about subscriptions."""
    case = case_of("stripe")

    turn(case)
    turn(case, timedelta(days=2))

    assert [line["because"] for line in case.logged("subscription.unchecked")] == ["public_url is not set"]
    assert "GET /v1/webhook_endpoints" not in case.calls()


def test_a_credential_that_may_not_look_is_no_alarm(case_of: MakeCase) -> None:
    """A restricted key that may not read webhooks leaves them unchecked, which is said."""
    case = case_of("stripe")
    watch(case)
    case.sandbox._access.restricted = {"sk_test_standinofakey": frozenset({"webhook_endpoint"})}  # type: ignore[attr-defined]

    turn(case)

    assert alarms(case) == {}
    assert len(case.logged("subscription.unchecked")) == 1


def test_a_provider_that_is_away_is_looked_at_again_soon(case_of: MakeCase) -> None:
    """A failure is put off, not taken for a loss, and looked at again before the night."""
    case = case_of("stripe")
    watch(case)
    unsubscribe(case)
    case.faults(status={"500": 1})

    turn(case)
    away = alarms(case)
    case.faults()
    turn(case, timedelta(minutes=20))

    assert away == {}
    assert {line["look"] for line in case.logged("watchdog.put_off")} == {"subscriptions", "deliveries"}
    assert "subscription_lost" in alarms(case)


def test_another_version_is_an_alarm(case_of: MakeCase) -> None:
    """An endpoint that sends in another API version than we read in is named, with both."""
    case = case_of("stripe", api_version="2025-09-30.clover")
    watch(case)

    turn(case)

    assert all(version in alarms(case)["version_drift"] for version in ("2025-09-30.clover", "2026-10-28.endive"))


def test_events_in_another_version_are_an_alarm(case_of: MakeCase) -> None:
    """Where endpoints cannot tell, the events themselves do."""
    case = case_of("stripe")
    case.say({"id": "evt_1", "object": "event", "type": "x", "api_version": "2024-06-20", "created": ago(1)})
    watch(case, "https://hooks.example.com/webhooks/stripe-eu")

    turn(case)

    assert "2024-06-20" in alarms(case)["version_drift"]


# Who looks


def test_only_the_leader_looks(case_of: MakeCase) -> None:
    """A process that does not lead asks nobody; once it leads it looks at once."""
    case = case_of("stripe")
    watch(case)
    unsubscribe(case)
    watchdog, stop, leads = case.program.watchdog, threading.Event(), threading.Event()
    watchdog._tick = 0.01
    turns = threading.Semaphore(0)
    watchdog._beat = lambda _: turns.release()

    watchdog.start(stop, leads)
    for _ in range(5):
        assert turns.acquire(timeout=10)
    asked = len(case.calls())
    leads.set()
    end = time.monotonic() + 10
    while "subscription_lost" not in alarms(case):
        assert time.monotonic() < end
        time.sleep(0.01)
    stop.set()

    assert watchdog.join(10)
    assert watchdog.failure is None
    assert asked == 0


# Deliveries that failed


def test_failed_deliveries_of_github_are_sent_again_a_few_times(case_of: MakeCase) -> None:
    """Each hour what failed and did not arrive is sent again: three times with growing rests, and no more."""
    case = case_of("github")
    with closing(Grudging(500)) as grudging:
        case.control("PUT", "/webhooks", {"id": HOOK, "url": grudging.url, "secret": SECRET})
        watch(case, grudging.url)
        for _ in range(2):
            case.act("create", "issue")
        case.flush()
        [arrived, lost] = list(grudging.received)
        case.post(arrived)  # it was taken, and only the answer was lost
        seen = []

        for later in (0, 0.5, 1.1, 2.2, 3.3, 30, 60):
            turn(case, later * HOUR)
            case.flush()
            seen.append(len(grudging.received) - 2)

    guids = {each.headers["x-github-delivery"] for each in grudging.received[2:]}
    assert guids == {lost.headers["x-github-delivery"]}
    assert seen == [1, 1, 2, 2, 3, 3, 3]
    assert len(case.logged("delivery.redelivered")) == 3


def test_a_redelivery_is_no_duplicate_of_another_hook(case_of: MakeCase) -> None:
    """An event that arrived by one hook is still asked for by another: its id names the hook."""
    case = case_of("github")
    with closing(Grudging(500)) as grudging:
        other = {"id": "30002", "url": grudging.url, "secret": SECRET}
        case.control("PUT", "/webhooks", [{"id": HOOK, "url": case.inbox, "secret": SECRET}, other])
        watch(case, grudging.url)
        case.act("create", "issue")
        case.flush()

        turn(case)
        case.flush()
        case.post(grudging.received[-1])

    assert len(grudging.received) == 2
    assert [status for (status,) in case.rows("SELECT duplicates FROM webhook_events")] == [0, 0]


def test_undelivered_events_of_stripe_are_read(case_of: MakeCase) -> None:
    """What no endpoint took is wanted once, and read; what may still be on its way is waited for."""
    case = case_of("stripe")
    case.faults(drop=1)
    missed = case.act("create", "customer", at=ago(600))
    fresh = case.act("create", "customer")
    case.faults()

    turn(case)
    case.work(lambda: bool(case.stands("customer", missed)))
    first = dict(case.rows("SELECT id, wanted FROM refetches"))
    turn(case, 1.1 * HOUR)
    then = dict(case.rows("SELECT id, wanted FROM refetches"))

    assert set(first) == {missed}
    assert set(then) == {missed, fresh}
    assert then[missed] == first[missed]
    with case.program.database.transaction() as connection:
        assert redeliveries.forget(connection, case.source, before=datetime.now(UTC) + 2 * HOUR) == 2


# Silence


@pytest.mark.parametrize(
    ("silence", "alarmed"),
    [
        ({}, True),
        ({"missed": LEAST - 1}, False),
        ({"last_at": NOW - 5 * HOUR}, False),
        ({"last_at": None, "events": 0, "usual": None}, True),
        ({"last_at": None, "events": 0, "usual": None, "since": NOW - 23 * HOUR}, False),
        ({"events": 19, "last_at": NOW - 23 * HOUR}, False),
        ({"events": 19, "last_at": NOW - 25 * HOUR}, True),
        ({"usual": timedelta(seconds=1), "last_at": NOW - 0.9 * HOUR}, False),
        ({"usual": timedelta(seconds=1), "last_at": NOW - 1.1 * HOUR}, True),
    ],
)
def test_why_a_source_is_too_silent(silence: Mapping[str, Any], alarmed: bool) -> None:  # noqa: FBT001 - a column of the table
    """Enough was missed, and for twice as long as it was ever silent; a day while that is not known."""
    given = {"missed": 5, "since": NOW - 30 * HOUR, "last_at": NOW - 7 * HOUR, "events": 100, "usual": 3 * HOUR}

    assert bool(why(Silence(now=NOW, **{**given, **silence}))) is alarmed


def test_silence_ends_with_the_next_event(emptied: Database) -> None:
    """What sweeps found since the last event counts, dry runs and other causes do not; an event ends the alarm."""
    event = (
        "INSERT INTO webhook_events (source, event_id, event_type, payload, headers, received_at)"
        " SELECT 's', 'evt_' || %s || n, 't', '{}', '{}', now() - make_interval(mins => %s + n * 10)"
        " FROM generate_series(1, %s) AS n"
    )
    drift = (
        "INSERT INTO drift (run_id, found_at, source, scope, kind, id, what, cause, diff)"
        " SELECT %s, now() - interval '5 min', 's', '', 'k', n::text, 'differs', %s, '[]'"
        " FROM generate_series(1, 4) AS n"
    )

    def standing() -> list[str]:
        with emptied.transaction() as connection:
            return [each.what for each in story.alarms(connection, {"s": ()}) if each.what == "silence"]

    with emptied.transaction() as connection:
        connection.exec_driver_sql(event, ("old", 120, 30))
        connection.exec_driver_sql("INSERT INTO runs (trigger, state, dry_run) VALUES ('cli', 'complete', true)")
        connection.exec_driver_sql(drift, (1, "missed_notification"))
        connection.exec_driver_sql(drift, (None, "other"))
    with capture_logs() as lines:
        Listening(emptied).listen("s")
        quiet = standing()
        with emptied.transaction() as connection:
            connection.exec_driver_sql(drift, (None, "missed_notification"))
        Listening(emptied).listen("s")
        Listening(emptied).listen("s")
        loud = standing()
        with emptied.transaction() as connection:
            connection.exec_driver_sql(event, ("new", -10, 1))
        Listening(emptied).listen("s")

    assert (quiet, loud, standing()) == ([], ["silence"], [])
    assert [line["event"] for line in lines] == ["source.silence"]


# What is said


def test_deprecation_is_an_alarm_and_one_line_a_day(case_of: MakeCase) -> None:
    """However many answers say so, it is one line and one alarm, which ends when nothing says so any more."""
    case = case_of("github")
    case.control("PUT", "/headers", {"Sunset": "Fri, 10 Mar 2028 00:00:00 GMT"})

    for _ in range(3):
        case.adapter.identity()
    said = alarms(case)["deprecated"]
    case.control("PUT", "/headers", {})
    turn(case, timedelta(days=3))

    assert "10 Mar 2028" in said
    assert len(case.logged("source.deprecated")) == 1
    assert alarms(case) == {}


def test_a_finding_is_said_when_new_and_once_a_day(emptied: Database) -> None:
    """The same sentence is said again after a day, another one at once; it stands since it was first found."""
    finding = Finding("s", What.DEPRECATED, "GET /x", "first")
    moments = [(0, "first"), (1, "first"), (2, "other"), (20, "other"), (27, "other")]

    with emptied.transaction() as connection:
        said = [
            findings.find(connection, replace(finding, because=because), now=NOW + hours * HOUR)
            for hours, because in moments
        ]
        [alarm] = [each for each in story.alarms(connection, {"s": ()}) if each.what == "deprecated"]

    assert said == [True, False, True, False, True]
    assert alarm.since == NOW


def test_hearing_asks_the_database_rarely(emptied: Database) -> None:
    """The same words are kept once an hour by a process, whoever says them; others at once."""
    now = [0.0]
    hearing = Hearing(emptied, "s", clock=lambda: now[0])
    counted = "SELECT count(*), max(seen_at) FROM findings"

    def kept() -> Any:
        with emptied.transaction() as connection:
            return tuple(connection.exec_driver_sql(counted).one())

    hearing("deprecated", "GET /x", "soon")
    first = kept()
    hearing("deprecated", "GET /x", "soon")
    again = kept()
    hearing("deprecated", "GET /y", "soon")
    two = kept()
    now[0] = 4000.0
    hearing("deprecated", "GET /x", "soon")

    assert first == again
    assert (first[0], two[0], kept()[0]) == (1, 2, 2)
    assert kept()[1] > two[1]


# Where deliveries should go


def test_where_a_source_is_reached(tmp_path: Path) -> None:
    """At its own name, or at that of an endpoint that feeds it: preferred where only the endpoint has a secret."""
    file = tmp_path / "reconciler.toml"
    file.write_text("""
        state_directory = "/var/lib/reconciler"
        public_url = "https://hooks.example.com"
        [[sources]]
        name = "alone"
        provider = "github"
        token = "env:SECRET"
        repositories = ["acme/shop"]
        webhook_secrets = ["env:SECRET"]
        [[sources]]
        name = "behind"
        provider = "github"
        token = "env:SECRET"
        repositories = ["acme/other"]
        manage_webhooks = true
        [[endpoints]]
        name = "app"
        sources = ["behind"]
        webhook_secrets = ["env:OTHER"]
    """)
    settings = config.load(file, {"SECRET": "ghp_standin", "OTHER": "other"})

    alone, behind = watched(settings, {each.name: cast("Adapter", None) for each in settings.sources})

    assert alone.addresses == {"https://hooks.example.com/webhooks/alone": "alone"}
    assert (alone.url, alone.secret, alone.manage, alone.hears) == (alone.urls[0], "ghp_standin", False, True)
    assert (behind.name, behind.secret, behind.manage) == ("app", "other", True)
    assert set(behind.addresses.values()) == {"app", "behind"}
