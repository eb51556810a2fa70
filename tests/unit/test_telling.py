"""One line and one count for each verdict."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from reconciler.metrics import Metrics
from reconciler.model import Change, ObjectRef, Origin, Reading, Snapshot, Verdict, Via
from reconciler.store.guard import Outcome
from reconciler.store.refetches import Seen
from reconciler.telling import tell

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from typing import Any

AT = datetime(2026, 11, 30, 3, 10, tzinfo=UTC)
REF = ObjectRef("stripe-eu", "", "customer", "cus_1")
ORIGIN = Origin(Via.WEBHOOK, event_id="evt_1", run_id=7)
SNAPSHOT = Snapshot(REF, {"name": "Grete Unmistakable"}, AT, AT)
OUTCOME = Outcome(
    reading=Reading(SNAPSHOT, 5, 9, AT),
    verdict=Verdict.APPLIED,
    change=Change.UPDATED,
    because="",
    diff=[{"path": "/name", "ours": "Gretel Unmistakable", "theirs": "Grete Unmistakable"}],
    wanted=None,
    ladder=False,
    seen=Seen(),
    digest="d",
    had_row=True,
    was_deleted=False,
    positions=(5, 9),
    stored_stamp=AT,
    stored_positions=(2, 4),
    held=False,
    forgotten=False,
)


def told(outcome: Outcome, origin: Origin = ORIGIN) -> tuple[list[MutableMapping[str, Any]], str]:
    """Return the lines and the counts of one outcome."""
    metrics = Metrics()
    with capture_logs() as lines:
        tell([outcome], origin=origin, metrics=metrics)
    counts = [line for line in metrics.exposition().decode().splitlines() if line.startswith("reconciler_verdicts")]
    return lines, "\n".join(counts)


@pytest.mark.parametrize("verdict", [Verdict.DECLINED, Verdict.TIED])
def test_a_refused_write(verdict: Verdict) -> None:
    """A snapshot that was not written is a warning with both stamps, both intervals and what brought it."""
    lines, counts = told(replace(OUTCOME, verdict=verdict, change=None, because="the two reads overlap"))

    assert lines == [
        {
            "event": "write.declined",
            "log_level": "warning",
            "ref": "stripe-eu/customer/cus_1",
            "verdict": str(verdict),
            "via": "webhook",
            "event_id": "evt_1",
            "run_id": 7,
            "because": "the two reads overlap",
            "incoming_source_updated_at": AT,
            "stored_source_updated_at": AT,
            "incoming_read_from": 5,
            "incoming_read_until": 9,
            "stored_read_from": 2,
            "stored_read_until": 4,
        }
    ]
    assert counts == (
        f'reconciler_verdicts_total{{kind="customer",source="stripe-eu",verdict="{verdict}",via="webhook"}} 1.0'
    )


@pytest.mark.parametrize(
    ("verdict", "change", "event", "level"),
    [
        (Verdict.APPLIED, Change.UPDATED, "write.applied", "info"),
        (Verdict.APPLIED, Change.DELETED, "write.applied", "info"),
        (Verdict.APPLIED, Change.REWOUND, "write.rewound", "warning"),
        (Verdict.UNCHANGED, None, "write.unchanged", "debug"),
    ],
)
def test_any_other_verdict(verdict: Verdict, change: Change | None, event: str, level: str) -> None:
    """Each verdict has its line, and a source that has rewound a loud one."""
    lines, counts = told(replace(OUTCOME, verdict=verdict, change=change))

    assert [(line["event"], line["log_level"], line["verdict"]) for line in lines] == [(event, level, str(verdict))]
    assert counts.endswith(" 1.0")


def test_a_listing_that_decided_nothing() -> None:
    """What got no verdict is neither told nor counted."""
    assert told(replace(OUTCOME, verdict=None, change=None)) == ([], "")


def test_what_brought_it() -> None:
    """Event and run stand in the line only where there is one; run 0 would be one."""
    nobody, _ = told(OUTCOME, Origin(Via.TRIGGER))
    first, _ = told(OUTCOME, Origin(Via.SWEEP, run_id=0))

    assert {"event_id", "run_id"}.isdisjoint(nobody[0])
    assert first[0]["run_id"] == 0


@pytest.mark.parametrize("verdict", Verdict)
def test_no_body_is_told(verdict: Verdict) -> None:
    """What an object holds stays in the database."""
    lines, counts = told(replace(OUTCOME, verdict=verdict, change=None))

    assert "Unmistakable" not in f"{lines} {counts}"
