"""The repositories of one source: which they are, by number, whatever they are called."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from adapters.github.calls import HOPS, REDIRECTS
from adapters.github.events import number_of
from adapters.github.lists import Shelf
from reconciler import content
from reconciler.errors import AccessLost, ConfigError, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adapters.github.calls import Calls
    from adapters.github.lists import Lists
    from reconciler.model import JSON, Body

_KEPT: Final = 300.0  # seconds for which the repositories of accounts are not listed again
_OLDEST_FIRST: Final = {"sort": "created", "direction": "asc"}
_LATEST_CHANGE_FIRST: Final = {"sort": "updated", "direction": "desc"}
_ACCOUNTS: Final = ("/organization/login", "/installation/account/login", "/account/login")
"""Where an event that is about no repository shows whose it is."""


@dataclass(frozen=True, slots=True)
class _Listed:
    """What the lists of accounts showed, and until when that is not asked again (monotonic)."""

    until: float
    numbers: tuple[str, ...]
    unseen: tuple[str, ...]
    owners: tuple[str, ...]


class Places:
    """
    The configured repositories, those of organizations, or all that the credential is given.

    A configured name is looked up once: it goes on meaning that repository, even if another is called so later.
    """

    def __init__(
        self, calls: Calls, lists: Lists, *, repositories: Sequence[str], organizations: Sequence[str]
    ) -> None:
        """Raise `ConfigError` for a name that is none; nothing is called yet."""
        odd = [each for each in repositories if not re.fullmatch(r"[\w.-]+/[\w.-]+", each, re.ASCII)]
        if odd:
            raise ConfigError(f"repositories: not of the form owner/name: {', '.join(odd)}")
        self._calls, self._lists = calls, lists
        self._names = tuple(dict.fromkeys(each.lower() for each in repositories))
        self._organizations = tuple(dict.fromkeys(each.lower() for each in organizations))
        self._numbers: dict[str, str] = {}
        self._accounts: dict[str, str] = {}
        self._nodes: dict[str, str] = {}
        self._listed: _Listed | None = None

    def numbers(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the numbers of our repositories, and the configured names that are not seen."""
        named, unseen = self.named()
        listed = self._list()
        return tuple(dict.fromkeys([*named, *listed.numbers])), (*unseen, *listed.unseen)

    def accounts(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the numbers of our organizations, and the configured names that are not seen."""
        if not self._names and not self._organizations:
            return self._list().owners, ()
        unseen = []
        for name in self._organizations:
            if name not in self._accounts:
                try:
                    self._accounts[name] = self.number_at(f"/orgs/{quote(name, safe='')}", "GET /orgs/{org}")
                except AccessLost:
                    self.account()  # as below
                    unseen.append(name)
        return tuple(self._accounts.values()), tuple(unseen)

    def nodes(self) -> dict[str, str]:
        """Return by what GraphQL knows our repositories, as far as they were seen, by number."""
        return dict(self._nodes)

    def look_again(self) -> None:
        """Have the repositories of accounts listed anew when they are next asked for."""
        if self._listed is not None:
            self._listed = replace(self._listed, until=0.0)

    def named(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the numbers of those configured by name, and the names that are not seen."""
        unseen = []
        for name in self._names:
            if name not in self._numbers:
                try:
                    self._numbers[name] = self.number_at(f"/repos/{quote(name)}", "GET /repos/{owner}/{repo}")
                except AccessLost:
                    self.account()  # the credential is good, or all is lost
                    unseen.append(name)
        return tuple(dict.fromkeys(self._numbers.values())), tuple(unseen)

    def called(self) -> dict[str, str]:
        """Return the number of each repository that is configured by name and seen."""
        self.named()
        return dict(self._numbers)

    @property
    def organizations(self) -> tuple[str, ...]:
        """The configured organizations."""
        return self._organizations

    def shelves(self, *, latest: bool = False) -> list[Shelf]:
        """Return the lists that show our repositories besides; *latest* change first, where a list can be sorted."""
        order = _LATEST_CHANGE_FIRST if latest else _OLDEST_FIRST
        if self._names or self._organizations:
            return [
                Shelf("GET /orgs/{org}/repos", f"/orgs/{quote(each, safe='')}/repos", {"type": "all"} | order)
                for each in self._organizations
            ]
        if self._calls.app is None:
            return [Shelf("GET /user/repos", "/user/repos", order)]
        return [Shelf("GET /installation/repositories", "/installation/repositories", {})]

    def is_ours(self, place: Body) -> bool:
        """Say whether a repository or organization, as a payload shows it, is one of ours; asks nobody."""
        return self._is_our_repository(place) if "full_name" in place else self._is_our_organization(place)

    def _is_our_organization(self, account: Body) -> bool:
        if not self._names and not self._organizations:
            return True
        return str(account.get("login")).lower() in self._organizations

    def _is_our_repository(self, repository: Body) -> bool:
        number, name = number_of(repository.get("id")), str(repository.get("full_name")).lower()
        if not self._names and not self._organizations:
            return True
        if number in self._numbers.values() or (self._listed is not None and number in self._listed.numbers):
            return True
        # A name that was looked up is known to be another repository's: it was given away since.
        return name.partition("/")[0] in self._organizations or (name in self._names and name not in self._numbers)

    def is_addressed(self, payload: Body) -> bool:
        """
        Say whether an event is ours: by its installation first, then by its repository or account; asks nobody.

        Where no places are configured only our own installation will do: an app may be installed by anybody.
        """
        app, told = self._calls.app, number_of(content.find(payload, "/installation/id"))
        installed = app is not None and told == str(app.installation_id)
        if app is not None and told is not None and not installed:
            return False
        if not self._names and not self._organizations:
            return installed
        repository = payload.get("repository")
        if isinstance(repository, dict):
            return self.is_ours(repository)
        return installed or self._is_owner(payload)

    def account(self) -> str:
        """Return the id of the user or installation behind the credential; raises `AccessLost` if it is not good."""
        app = self._calls.app
        if app is None:
            return self.number_at("/user", "GET /user")
        self._calls.page("GET /installation/repositories", "/installation/repositories", {"per_page": "1"})
        return str(app.installation_id)

    def _is_owner(self, payload: Body) -> bool:
        owners = {*self._organizations, *(name.partition("/")[0] for name in self._names)}
        return any(str(content.find(payload, pointer)).lower() in owners for pointer in _ACCOUNTS)

    def _list(self) -> _Listed:
        """Return what the lists of accounts show, asked for now and then."""
        if self._listed is not None and monotonic() < self._listed.until:
            return self._listed
        found: list[Body] = []
        unseen = []
        for shelf in self.shelves():
            try:
                found += [body for page in self._lists.settled(shelf) for body in page.objects]
            except AccessLost:
                self.account()  # as above
                unseen.append(shelf.target.split("/")[2])
        for body in found:
            self._note(body)
        numbers = _numbers(body.get("id") for body in found)
        owners = [body.get("owner") for body in found]
        organizations = (each for each in owners if isinstance(each, dict) and each.get("type") == "Organization")
        self._listed = _Listed(
            monotonic() + _KEPT, numbers, tuple(unseen), _numbers(each.get("id") for each in organizations)
        )
        return self._listed

    def _note(self, repository: Body) -> None:
        number, node = number_of(repository.get("id")), repository.get("node_id")
        if number is not None and isinstance(node, str):
            self._nodes[number] = node

    def number_at(self, target: str, operation: str) -> str:
        """Return the id of whatever is at *target*, wherever that is by now; raises `AccessLost` where nothing is."""
        for _ in range(HOPS):
            answer = self._calls.ask(operation, target)
            if answer.status not in REDIRECTS:
                break
            target = self._calls.led_to(operation, answer)
        else:
            raise SourceUnavailable(f"{operation}: led on and on")
        if answer.status != 200:
            raise AccessLost(self._calls.said(operation, answer))
        body = self._calls.body(operation, answer)
        id_ = number_of(body.get("id"))
        if id_ is None:
            raise SourceUnavailable(f"{operation}: the answer has no id")
        if "full_name" in body:
            self._note(body)
        return id_


def _numbers(values: Iterable[JSON]) -> tuple[str, ...]:
    found = (number_of(value) for value in values)
    return tuple(dict.fromkeys(each for each in found if each is not None))
