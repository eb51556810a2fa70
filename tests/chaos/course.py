"""What happens in a round, drawn from its seed: the same seed draws the same course."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROVIDERS = ("stripe", "shopify", "github")
LENGTH = 9.0
"""Seconds in which things happen."""

_BEAT = 0.25
_DISTURBANCES = (6, 14)


@dataclass(frozen=True, slots=True, order=True)
class Act:
    """
    One thing that happens.

    Attributes:
        at: Seconds after the round's beginning.
        what: The name of a method of the stage.
        told: Its arguments.
    """

    at: float
    what: str
    told: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        told = ", ".join(f"{name}={value!r}" for name, value in self.told.items())
        return f"{self.at:4.1f} s {self.what}({told})"


@dataclass(frozen=True, slots=True)
class Course:
    """
    A round: whose stand-ins take part, and what happens to whom and when.

    Attributes:
        stale: Reads may show a state from before: then rows of kinds without a stamp may go back, and only then.
        spool: Deliveries are kept on disk while the database is away.
    """

    seed: int
    providers: tuple[str, ...]
    acts: tuple[Act, ...]
    stale: bool
    spool: bool


def draw(seed: int) -> Course:
    """Return the course of *seed*."""
    chance = Random(f"chaos {seed}")
    providers = tuple(sorted(chance.sample(PROVIDERS, chance.choice((1, 1, 2)))))
    lot = _Lot(chance, providers, stale=chance.random() < 0.5)
    return Course(seed, providers, tuple(sorted(lot.acts())), lot.stale, spool=chance.random() < 0.5)


class _Lot:
    """Draws what happens, sort by sort."""

    def __init__(self, chance: Random, providers: Sequence[str], *, stale: bool) -> None:
        self._chance = chance
        self._providers = providers
        self.stale = stale

    def acts(self) -> Iterator[Act]:
        """Yield changes without a pause, what goes wrong all the time, and what disturbs."""
        for provider in self._providers:
            yield Act(0.0, "misbehave", {"provider": provider, "faults": self._faults()})
            for turn in range(int(LENGTH / _BEAT)):
                yield Act(turn * _BEAT, "change", {"provider": provider, "count": self._chance.randint(2, 8)})
        sorts = (
            *(self._storm, self._storm, self._storm, self._death, self._death, self._twin),
            *(self._edit, self._silence, self._sweep, self._database, self._clock),
        )
        for _ in range(self._chance.randint(*_DISTURBANCES)):
            yield from self._chance.choice(sorts)()

    def _faults(self) -> dict[str, Any]:
        """Return what a provider does wrong all the time."""
        choice = self._chance.choice
        faults: dict[str, Any] = {
            "drop": choice((0.0, 0.1, 0.4)),
            "duplicate": choice((0.0, 0.1, 0.5)),
            "reorder": choice((0.0, 0.2, 0.5)),
            "delay": [0, choice((0.0, 0.5, 2.0))],
            "status": {"429": choice((0.0, 0.02)), "500": choice((0.0, 0.02, 0.1))},
            "slow": [0, choice((0.0, 0.05, 0.3))],
        }
        return faults | ({"stale_reads": 0.1, "stale_for": 1.0} if self.stale else {})

    def _storm(self) -> Iterator[Act]:
        """Have a provider do worse for a while, in one way."""
        worse: Mapping[str, Any] = self._chance.choice(
            (
                {"timeout": 0.05, "hang_for": 3.0},
                {"status": {"500": 0.5}},
                {"status": {"429": 0.5}},
                {"lost_access": self._chance.choice(("401", "403", "404"))},
                {"shift_pages": 0.5},
                {"drop": 1.0},
                {"slow": [1.0, 2.0]},
            )
        )
        provider, begins = self._chance.choice(self._providers), self._when()
        ends = round(begins + self._chance.choice((0.5, 1.5, 3.0)), 1)
        yield Act(begins, "misbehave", {"provider": provider, "faults": {**self._faults(), **worse}})
        yield Act(ends, "misbehave", {"provider": provider, "faults": self._faults()})

    def _death(self) -> Iterator[Act]:
        """Have the daemon die by a signal, and come back."""
        dies = self._when()
        yield Act(dies, "end", {"how": self._chance.choice(("SIGKILL", "SIGKILL", "SIGTERM"))})
        yield Act(round(dies + self._chance.choice((0.0, 1.0, 3.0)), 1), "serve")

    def _twin(self) -> Iterator[Act]:
        """Have a second daemon work beside the first for a while."""
        yield Act(self._when(before=LENGTH / 2), "serve_beside")
        yield Act(self._when(), "end_beside", {"how": self._chance.choice(("SIGKILL", "SIGTERM"))})

    def _edit(self) -> Iterator[Act]:
        yield Act(self._when(), "edit", {"provider": self._chance.choice(self._providers), "count": self._some()})

    def _silence(self) -> Iterator[Act]:
        told = {"provider": self._chance.choice(self._providers), "count": self._some()}
        yield Act(self._when(), "change_in_silence", told)

    def _sweep(self) -> Iterator[Act]:
        """Have somebody sweep while all of this goes on."""
        yield Act(self._when(), "sweep_beside", {"full": self._chance.random() < 0.3})

    def _database(self) -> Iterator[Act]:
        """Have the database restart, cut off, or without a connection left."""
        what = self._chance.choice(("restart", "restart", "cut_off", "exhaust"))
        if what == "restart":
            yield Act(self._when(), what, {"how": self._chance.choice(("SIGINT", "SIGQUIT", "SIGKILL"))})
        else:
            yield Act(self._when(), what, {"seconds": self._chance.choice((0.5, 2.0))})

    def _clock(self) -> Iterator[Act]:
        """Set a clock forward or back, and put it right later or at the end."""
        whose, begins = self._chance.choice(("database", "daemon")), self._when()
        step = self._chance.choice((-86_400, -3600, -30, 30, 3600, 86_400))
        yield Act(begins, "set_clock", {"whose": whose, "seconds": step})
        if self._chance.random() < 0.5:
            yield Act(round(begins + 2, 1), "set_clock", {"whose": whose, "seconds": 0})

    def _when(self, *, before: float = LENGTH) -> float:
        return round(self._chance.uniform(0.5, before), 1)

    def _some(self) -> int:
        return self._chance.randint(1, 8)
