"""How often what happened: the numbers of a demo, source by source, and the table that shows them."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import chain, zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

import psycopg
from prometheus_client.parser import text_string_to_metric_families
from rich import box
from rich.table import Table

from reconciler.demo.loopback import ask

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from reconciler.demo.comparing import Compared
    from reconciler.demo.provider import Provider

Counts: TypeAlias = "Mapping[str, int]"
"""By source."""

_VERDICTS = ("applied", "unchanged", "declined", "tied")
_HAPPENED = {"changed": "change", "created": "create", "deleted": "delete", "came back": "recreate"}
_SENT = {"sent": "sent", "lost": "dropped", "doubled": "duplicates", "reordered": "reordered"}
_GOOD = {"200", "304"}


class Tallies:
    """What only processes know that end before the table is written: daemons and runs."""

    def __init__(self) -> None:
        self.fetches = Counter[str]()
        self.run_calls = Counter[str]()
        self.verdicts: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def add_daemon(self, admin: str) -> None:
        """Add what the daemon whose admin listener is at *admin* has counted since it was started."""
        for family in text_string_to_metric_families(ask(admin, "GET", "/metrics").decode()):
            for sample in family.samples:
                if sample.name == "reconciler_fetches_total":
                    self.fetches[sample.labels["source"]] += int(sample.value)
                elif sample.name == "reconciler_verdicts_total":
                    self.verdicts[sample.labels["verdict"]][sample.labels["source"]] += int(sample.value)

    def add_run(self, report: Mapping[str, Any]) -> None:
        """Add what a run says of itself."""
        for each in report["kinds"]:
            self.run_calls[each["source"]] += each["calls"]
            for verdict in _VERDICTS:
                self.verdicts[verdict][each["source"]] += each[verdict]


def table(url: str, providers: Sequence[Provider], tallies: Tallies) -> Table:
    """Return one table of all that happened: a column for each source."""
    shown = Table(title="what happened", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    shown.add_column("")
    sources = [each.part.source for each in providers]
    for source in sources:
        shown.add_column(source, justify="right")
    for group in (_at_providers(providers), _here(url, tallies), _asked(providers, tallies)):
        for what, counts in group:
            shown.add_row(what, *(str(counts.get(source, 0)) for source in sources))
        shown.add_section()
    return shown


def kinds_table(providers: Sequence[Provider], compared: Compared) -> Table:
    """Return a table beside each other for each provider: how many objects of each kind were compared, and differ."""
    shown = Table(title="compared, object by object", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for each in providers:
        shown.add_column(each.part.name, no_wrap=True)
        shown.add_column("objects", justify="right")
    for row in zip_longest(*(_compared(each, compared) for each in providers), fillvalue=("", "")):
        shown.add_row(*chain.from_iterable(row))
    shown.caption = "* no call lists them: those that no event told of were read by the ids that the stand-in knows"
    shown.caption_justify = "left"
    return shown


def _compared(provider: Provider, compared: Compared) -> Iterator[tuple[str, str]]:
    source, unlisted = provider.part.source, provider.part.unlisted
    differing = compared.differing(source)
    for kind in dict.fromkeys((*provider.part.first, *sorted(differing))):
        count = str(compared.kinds.get((source, kind), 0))
        differ = f", {differing[kind]} differ" if differing[kind] else ""
        yield f"{kind} *" if kind in unlisted else kind, f"{count}{differ}"


def _at_providers(providers: Sequence[Provider]) -> Iterator[tuple[str, Counts]]:
    reports = {each.part.source: each.ask("GET", "/deliveries?last=0") for each in providers}
    yield "objects", {each.part.source: len(each.truth()) for each in providers}
    for what, op in _HAPPENED.items():
        yield f"  {what}", {each.part.source: each.happened[op] for each in providers}
    for what, name in _SENT.items():
        yield f"deliveries {what}", {source: report[name] for source, report in reports.items()}
    yield (
        "  not answered 200",
        {source: report["sent"] - report["answers"].get("200", 0) for source, report in reports.items()},
    )


def _here(url: str, tallies: Tallies) -> Iterator[tuple[str, Counts]]:
    with psycopg.connect(url, options="-csearch_path=reconciler") as connection:

        def counts(statement: str) -> dict[str, Counter[str]]:
            found: defaultdict[str, Counter[str]] = defaultdict(Counter)
            for what, source, count in connection.execute(statement.encode()).fetchall():
                found[what][source] = count
            return found

        stored = counts("SELECT 'all', source, count(*) FROM webhook_events GROUP BY source")
        repeats = counts("SELECT 'all', source, sum(duplicates)::bigint FROM webhook_events GROUP BY source")
        drift = counts("SELECT cause, source, count(*) FROM drift GROUP BY cause, source ORDER BY cause")
    yield "notifications stored", stored["all"]
    yield "  duplicates seen", repeats["all"]
    yield "fetches by the daemon", tallies.fetches
    for verdict in _VERDICTS:
        yield f"verdict {verdict}", tallies.verdicts[verdict]
    for cause, found in drift.items():
        yield f"drift {cause}", found


def _asked(providers: Sequence[Provider], tallies: Tallies) -> Iterator[tuple[str, Counts]]:
    calls = {each.part.source: each.ask("GET", "/calls?last=0") for each in providers}
    yield "provider calls", {source: counted["total"] for source, counted in calls.items()}
    yield "  by the two runs", tallies.run_calls
    statuses = sorted({status for counted in calls.values() for status in counted["statuses"]} - _GOOD)
    for status in statuses:
        yield f"  answered {status}", {source: counted["statuses"].get(status, 0) for source, counted in calls.items()}
