"""Say what became of each snapshot: one log line and one count per verdict, the same wherever it was judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from reconciler.model import Change, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable

    from reconciler.metrics import Metrics
    from reconciler.model import Origin
    from reconciler.store.guard import Outcome


def tell(outcomes: Iterable[Outcome], *, origin: Origin, metrics: Metrics) -> None:
    """
    Log and count verdicts after their transaction has committed.

    Declined and tied snapshots are `write.declined` with both stamps and both intervals of positions; a rewound row is
    a warning of its own.
    """
    log = structlog.get_logger()
    for outcome in outcomes:
        if outcome.verdict is None:
            continue
        ref = outcome.ref
        metrics.judged(ref.source, ref.kind, str(outcome.verdict), str(origin.via))
        told: dict[str, object] = {"ref": str(ref), "verdict": str(outcome.verdict), "via": str(origin.via)}
        told |= {"event_id": origin.event_id} if origin.event_id else {}
        told |= {"run_id": origin.run_id} if origin.run_id is not None else {}
        if outcome.verdict in {Verdict.DECLINED, Verdict.TIED}:
            snapshot = outcome.reading.snapshot
            log.warning(
                "write.declined",
                **told,
                because=outcome.because,
                incoming_source_updated_at=snapshot.stamp,
                stored_source_updated_at=outcome.stored_stamp,
                incoming_read_from=outcome.positions[0],
                incoming_read_until=outcome.positions[1],
                stored_read_from=outcome.stored_positions[0] if outcome.stored_positions else None,
                stored_read_until=outcome.stored_positions[1] if outcome.stored_positions else None,
            )
        elif outcome.change is Change.REWOUND:
            log.warning(
                "write.rewound", **told, because="the source has rewound", stored_source_updated_at=outcome.stored_stamp
            )
        elif outcome.change is Change.LOADED:
            log.debug("write.applied", **told, change=str(outcome.change))  # the run says how many
        elif outcome.change is not None:
            log.info("write.applied", **told, change=str(outcome.change))
        else:
            log.debug("write.unchanged", **told)
