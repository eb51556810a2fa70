"""Killed after any durable step, the program goes on where it stopped: nothing is lost, nothing is wrong."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import reconciler
from reconciler import content
from tests.faults.crashing import Errand, run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.paths.cases import Case, MakeCase

KINDS = ("customer", "product")

STEPS = (
    "accounts.Pinned._compare",
    "drain.draining.Drain._paid",
    "drain.draining.Drain.want",
    "drain.looking.Looking._bury",
    "drain.looking.Looking._conclude",
    "drain.looking.Looking._leave_to_run",
    "drain.looking.Looking._postpone",
    "drain.pausing.Pausing._pause",
    "drain.pausing.Pausing.answered",
    "receive.Receiver._write",
    "schedule.Schedule._begin",
    "schedule.Schedule._let_go",
    "schedule.Schedule._look_at",
    "schedule.Schedule._settle",
    "schedule.Schedule.lead",
    "store.guard.apply_apart.<locals>.applied",
    "sweep.pages.drawn",
    "sweep.sweeping.Sweep._decide",
    "sweep.sweeping.Sweep._finish",
    "sweep.sweeping.Sweep._move_watermark",
    "sweep.sweeping.Sweep._show",
    "sweep.sweeping.Sweep.begin",
    "sweep.taking.Repairing.hints",
)
"""What a process does durably, each a transaction of its own."""

_READS = "it only reads"
_TURN = "a turn that is not noted comes again with the next night"
_COMMAND = "a command's own last step: what it did stands, and it can be given again"
_ONE = "one transaction is all of it: done or not done, and the next turn looks again"
ELSEWHERE = {
    "bootstrap.Program.looked_at": _READS,
    "bootstrap._Gauges.now": _READS,
    "bootstrap.applied": _ONE,
    "bootstrap.planning.Planning._keep": _COMMAND,
    "bootstrap.program": "shapes are made current again by the next start",
    "bootstrap.view": _READS,
    "budgets.Budgets.allot": _ONE,
    "cli.accounts._alone": _READS,
    "cli.accounts._known": _READS,
    "cli.accounts._refuse_taken": _READS,
    "cli.accounts._wait": _READS,
    "cli.accounts.adopt": _COMMAND,
    "cli.accounts.diff": _READS,
    "cli.accounts.pause": _COMMAND,
    "cli.accounts.remove": _COMMAND,
    "cli.accounts.rename": _COMMAND,
    "cli.accounts.resume": _COMMAND,
    "cli.acting._looked": _READS,
    "cli.acting._put_off": _READS,
    "cli.acting._ref": _READS,
    "cli.forgetting._check": _READS,
    "cli.forgetting.forget": _READS,
    "cli.reconciling._run": _READS,
    "cli.showing._list": _READS,
    "cli.showing.explain": _READS,
    "cli.showing.status": _READS,
    "cli.upgrading._chosen": _READS,
    "daemon.Daemon._apply": _READS,
    "daemon.Daemon._look": _ONE,
    "daemon.Daemon._serve": _READS,
    "daemon.Requests.looked_at": _READS,
    "daemon.Requests.run_report": _READS,
    "drain.draining.Drain._due": _READS,
    "drain.draining.Drain._tidy": "what it tidies is tidied at the next turn",
    "drain.draining._Leases._give_back": "a lease that is not given back ends by itself, as after every other step",
    "drain.erasing.Erasing._erase": _ONE,
    "drain.erasing.Erasing.turn": "a wish that is not noted as done is granted again, which changes nothing",
    "drain.looking.Looking._is_tombstone": _READS,
    "drain.looking.Looking._note_absence": "killed there in test_drain_absence.py",
    "drain.pausing.Pausing.look": "a look that was taken and not settled is due again within a minute",
    "drain.pausing.Pausing.refresh": _READS,
    "drain.pausing.Pausing.refuse": "a refusal that is not noted is met again by the next read",
    "drain.pausing.Pausing.seen": "a permission that is not noted is met again by the next read or list",
    "receive.Receiver._move_some": "killed there in test_spool.py",
    "receive.Receiver.hindrance": _READS,
    "schedule.Schedule._tell_abandoned": "the runs it marks were abandoned before",
    "schedule.Schedule.look": _READS,
    "schedule.Schedule.prune": "a slot that is not used is taken again, as after every other step",
    "store.forgetting._erase": "one transaction is all of it, and dying in it is tried in test_forgetting.py",
    "store.forgetting.forget": _READS,
    "store.guard.apply_apart.<locals>.bury": "what it buries is listed, and buried, by the next run",
    "store.marks.Marks.__call__": _READS,
    "store.migrate.check": _READS,
    "store.migrate.alone": "killed there in test_migrate.py",
    "store.replays.replay": "what was not replayed is dead still, and replayed by the next command (test_replays.py)",
    "store.retention._batches": "a batch is dropped or not, and the next day looks again (test_retention.py)",
    "store.retention.prune": _READS,
    "store.tokens.SharedTokens._release": "killed there in test_tokens.py",
    "store.tokens.SharedTokens._renewed": "killed there in test_tokens.py",
    "store.tokens.SharedTokens._shared": "killed there in test_tokens.py",
    "store.tokens.SharedTokens.forget": "a token that is refused again is forgotten then",
    "store.views.make": _READS,
    "store.vouching.Vouching.drop_others": _ONE,
    "store.vouching.Vouching.keep": "the endpoint of a secret that was not kept is made anew (test_watchdog.py)",
    "store.vouching.Vouching.look": _READS,
    "sweep.sparing.Sparing._count_as_listed": _ONE,
    "sweep.sparing.Sparing.left": _READS,
    "sweep.sweeping.Sweep._is_held": _READS,
    "sweep.sweeping.Sweep._judge": _READS,
    "sweep.sweeping.Sweep._list_scope": _TURN,
    "sweep.sweeping.Sweep._list_source": _READS,
    "sweep.sweeping.Sweep._note_lost": _ONE,
    "sweep.sweeping.Sweep._note_seen": _ONE,
    "sweep.sweeping.Sweep._put_off": _READS,
    "sweep.sweeping.Sweep._refuse_older_shape": _READS,
    "sweep.sweeping.Sweep._say_outrun": _ONE,
    "sweep.sweeping.Sweep._take_hints": _READS,
    "sweep.sweeping.Sweep._take_turn": _TURN,
    "sweep.sweeping.Sweep._turn": _TURN,
    "sweep.sweeping.Sweep._unfinished": _READS,
    "sweep.sweeping.Sweep._unlisted": _READS,
    "sweep.sweeping.Sweep._work_off": _READS,
    "sweep.taking.Comparing._compare": "a dry run: what it found is found again",
    "sweep.taking.Repairing.snapshots": "killed there in a run of a stamped kind (test_sweep.py)",
    "watchdog.hearing.Hearing.__call__": _ONE,
    "watchdog.redelivering.Redelivering._chosen": _READS,
    "watchdog.redelivering.Redelivering._redeliver": "without its note it is asked for once more: a duplicate",
    "watchdog.redelivering.Redelivering._want": _ONE,
    "watchdog.redelivering.Redelivering.look": _ONE,
    "watchdog.silence.Listening.listen": _ONE,
    "watchdog.subscriptions.Checking._drifted": _ONE,
    "watchdog.subscriptions.Checking._keep": _ONE,
    "watchdog.watching.Watchdog._deliveries": _ONE,
    "watchdog.watching.Watchdog.turn": _ONE,
}
"""The other places that begin a transaction, and why nobody need be killed there."""


def errand_of(case: Case) -> Errand:
    """Return what there is to do after objects came, changed and went, once told, twice told and untold."""
    kept, gone, quiet, untold = (case.act("create", "customer", deliver=False) for _ in range(4))
    lost = case.act("create", "product", deliver=False)
    case.sweep(full=True)
    sent = [
        *case.withheld("create", "customer")[1],
        *case.withheld("change", "customer", kept)[1],
        *case.withheld("delete", "customer", gone)[1],
        *case.withheld("create", "product")[1],
        *case.withheld("delete", "product", lost)[1],
    ]
    case.act("change", "customer", quiet, deliver=False)
    case.act("delete", "customer", untold, deliver=False)
    case.edit("UPDATE objects SET body = jsonb_set(body, '{name}', '\"by hand\"') WHERE id = %s", quiet)
    return Errand(
        case.file, dict(case.environment), case.source, [*sent, sent[1]], [case.ref("customer", "no such/id")]
    )


class Weather:
    """A provider that first lets nobody in, then fails for a moment, then is well."""

    def __init__(self, case: Case) -> None:
        self._case = case
        case.faults(lost_access="401")

    def __call__(self, step: str) -> None:
        """Change with the steps of the process."""
        if step.endswith("_pause"):
            self._case.faults(status={"500": 1.0})
            self._case.hasten()
        if step.endswith("_postpone"):
            self._case.faults()
            self._case.hasten()


def expire(case: Case) -> None:
    """Let everything that a dead process held have run out."""
    case.hasten()
    for table, until in (("refetches", "leased_until"), ("sweeps", "held_until"), ("slots", "held_until")):
        case.edit(f"UPDATE {table} SET {until} = clock_timestamp() WHERE {until} > clock_timestamp()")
    case.edit("UPDATE holders SET held_until = clock_timestamp()")
    case.edit("UPDATE runs SET started_at = started_at - interval '2 minutes' WHERE state = 'running'")


@pytest.mark.parametrize("step", STEPS)
def test_killed_after(case_of: MakeCase, step: str) -> None:
    """Whatever the step: what was acknowledged is done, rows are the provider's, and nothing is held for ever."""
    case = case_of("stripe")
    errand = errand_of(case)

    first = run(errand, dies_after=step, reached=Weather(case))
    case.faults()
    expire(case)
    second = run(errand)

    assert (first.killed, second.killed, second.ended) == (True, False, "complete")
    acknowledged = {content.parse(errand.deliveries[number].body)["id"] for number in first.answered}
    assert acknowledged <= {id_ for (id_,) in case.rows("SELECT event_id FROM webhook_events WHERE outcome = 'done'")}
    assert case.wrong(*KINDS) == []
    assert (
        case.rows("SELECT id FROM refetches WHERE dead_at IS NULL AND (wanted > done OR leased_until IS NOT NULL)")
        == []
    )
    assert case.rows("SELECT id FROM runs WHERE state = 'running'") == []
    assert case.rows("SELECT source FROM sweeps") == []


def test_every_step_is_known(case_of: MakeCase) -> None:
    """No transaction is begun anywhere but in a step that is tried above, or for a reason that stands beside it."""
    case = case_of("stripe")

    told = run(errand_of(case), reached=Weather(case))

    assert told.ended == "complete"
    assert set(STEPS) <= set(told.steps)
    assert set(transactions()) == {*STEPS, *ELSEWHERE}
    assert set(STEPS).isdisjoint(ELSEWHERE)


def transactions() -> Iterator[str]:
    """Yield the name of each function of ours that begins a transaction."""
    top = Path(reconciler.__file__).parent
    for path in top.rglob("*.py"):
        name = ".".join(path.relative_to(top).with_suffix("").parts).removesuffix(".__init__")
        if name != "store.database":
            yield from (f"{name}.{within}" for within in _beginning(ast.parse(path.read_text("utf-8")), ()))


def _beginning(node: ast.AST, within: tuple[str, ...]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _beginning(child, (*within, child.name, "<locals>"))
            case ast.ClassDef():
                yield from _beginning(child, (*within, child.name))
            case _:
                if _begins(child):
                    yield ".".join(within[:-1])
                yield from _beginning(child, within)


def _begins(node: ast.AST) -> bool:
    """Say whether this is a call that begins a transaction."""
    called = node.func if isinstance(node, ast.Call) else None
    return isinstance(called, ast.Attribute) and called.attr in {"transaction", "commit"}
