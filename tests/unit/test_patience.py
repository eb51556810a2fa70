"""Asking for one page of a long listing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reconciler.adapter import patiently
from reconciler.errors import AccessLost, SourceBusy, SourceUnavailable

if TYPE_CHECKING:
    from reconciler.errors import SourceError


class Provider:
    """Fail so and so often, then answer."""

    def __init__(self, *failures: SourceError) -> None:
        self.failures = list(failures)
        self.asked = 0
        self.rests: list[float] = []

    def __call__(self) -> str:
        """Answer, or fail."""
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        return "page"


@pytest.mark.parametrize(
    ("failures", "rests"),
    [
        ([], []),
        ([SourceBusy("429")] * 7, []),
        ([SourceUnavailable("500")] * 2, [0.5, 1.0]),
        ([SourceUnavailable("503", retry_after=3.0)], [3.0]),
        ([SourceUnavailable("503", retry_after=3600.0)], [10.0]),
        ([SourceBusy("429"), SourceUnavailable("500"), SourceBusy("429")], [0.5]),
    ],
)
def test_what_passes_is_waited_for(failures: list[SourceError], rests: list[float]) -> None:
    """A provider that is busy, or fails for a moment, is asked again; breaths are short, whatever it asks for."""
    provider = Provider(*failures)

    assert patiently(provider, sleep=provider.rests.append) == "page"
    assert provider.asked == len(failures) + 1
    assert provider.rests == rests


@pytest.mark.parametrize(
    ("failures", "asked"),
    [
        ([SourceBusy("429")] * 20, 8),
        ([SourceUnavailable("500")] * 20, 3),
        ([AccessLost("401")] * 2, 1),
    ],
)
def test_what_goes_on_is_raised(failures: list[SourceError], asked: int) -> None:
    """What goes on failing is raised as it is, and what waiting cannot mend at once."""
    provider = Provider(*failures)

    with pytest.raises(type(failures[0])):
        patiently(provider, sleep=provider.rests.append)

    assert provider.asked == asked
