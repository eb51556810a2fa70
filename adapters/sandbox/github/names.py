"""Which repository a name means: the one that has it now, else the one that had it last."""

from __future__ import annotations


class Names:
    """The names repositories have, and those they had before somebody else took them."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}
        self._before: dict[str, str] = {}

    def has(self, name: str) -> str | None:
        """Return the number of the repository that is called *name*."""
        return self._now.get(name.lower())

    def had(self, name: str) -> str | None:
        """Return the number of the repository that was called *name*, unless another was since."""
        return self._before.get(name.lower())

    def give(self, name: str, number: str) -> None:
        """Call a repository *name*; whoever was called so before is found by it no more."""
        self._before.pop(name.lower(), None)
        self._now[name.lower()] = number

    def change(self, old: str, new: str) -> None:
        """Rename a repository; its old name leads to it until another takes it."""
        number = self._now.pop(old.lower())
        self._before[old.lower()] = number
        self.give(new, number)

    def drop(self, name: str) -> None:
        """Forget the name of a repository that is gone."""
        self._now.pop(name.lower(), None)
