"""
A stand-in for GitHub's REST API: state in memory, loopback only, with the provider's habits.

Answers the read calls that a mirror needs, and those about hooks, as the real `PyGithub` makes them, and sends signed
webhooks, once each. What differs from GitHub: objects are changed by the control routes, the text of each object ends
with `v3` or the like, which counts its changes, and whoever signed an app's JSON Web Token is not looked at.

What the control routes take as `body` are the fields that GitHub shows, with `labels` by name or id, `milestone` by
its number, people by their login, and for a comment `issue`, the number it belongs to. A repository is renamed by its
`name` and transferred by its `owner`; without a scope an object goes into the oldest repository.

Control routes of its own:

    POST   /transfer   {"scope","id","to"}: move an issue to another repository, where it gets another number
    PUT    /habits     see `Habits`; what is not named is as at first; GET shows them
    PUT    /hooks      {"<hook id>": {"content_type","target","owner"}}: what webhooks are besides their URL
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from starlette.applications import Starlette

from adapters.sandbox.clock import Clock
from adapters.sandbox.control import Control, route
from adapters.sandbox.deliveries import Backoff
from adapters.sandbox.faults import Refused
from adapters.sandbox.front import Front
from adapters.sandbox.github.access import Access
from adapters.sandbox.github.answers import GitHubVoice
from adapters.sandbox.github.api import Api
from adapters.sandbox.github.calls import Shelves
from adapters.sandbox.github.graphql import GraphQL
from adapters.sandbox.github.hooking import Hooking
from adapters.sandbox.github.hooks import Hooks, traits_from
from adapters.sandbox.github.inside import Inside
from adapters.sandbox.github.ledger import SHIFTS, Ledger
from adapters.sandbox.github.listing import Ceilings
from adapters.sandbox.github.owners import Owners
from adapters.sandbox.machinery import build
from adapters.sandbox.serving import serving

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from adapters.sandbox.github.calls import Operations
    from adapters.sandbox.limits import Rates
    from adapters.sandbox.operations import Operation
    from adapters.sandbox.serving import Running
    from adapters.sandbox.world import JSON, Body

INSTALLATION = "51001"
"""The installation of the app that there is by default; it sees every repository."""

ONCE = Backoff(attempts=1)
"""GitHub never sends a delivery again by itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """
    What a test may want otherwise.

    Attributes:
        limit: Calls an hour for one token, the primary limit; setting it gives everybody a new hour.
        retry_after: Seconds that the secondary limit tells to wait; None: it tells none.
        limit_status: How a call over a limit is answered: 403 or 429.
        ceiling: A list shows so many results to those who count pages; beyond is a 422.
        cursors: Lists of issues hand out cursors in `Link`, for which there is no ceiling.
        hidden: Repositories, by number, that nobody sees any more.
        shifts: What may happen between two pages, by the fault `shift_pages`: touch, create, delete.
        content_type: Of hooks that were not told: json or form.
        queries: Whether GraphQL answers this token at all.
        installed: `yes`, or what became of the app's installations: `suspended` or `no`.
    """

    limit: int = 5000
    retry_after: int | None = 1
    limit_status: int = 403
    ceiling: int = 10_000
    cursors: bool = False
    hidden: Sequence[str] = ()
    shifts: Sequence[str] = SHIFTS
    content_type: str = "json"
    queries: bool = True
    installed: str = "yes"


class Heard:
    """
    An application that remembers by which address it is called: webhooks show the URLs that the API shows.

    Attributes:
        address: GitHub's own until somebody calls.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.address = "https://api.github.com"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        for name, value in scope.get("headers", ()):
            if name == b"host":
                self.address = f"{scope.get('scheme', 'http')}://{value.decode('latin-1')}"
        await self._app(scope, receive, send)


class GitHubSandbox:
    """
    GitHub, with its organizations and repositories.

    Attributes:
        machinery: The clock, faults, limits, calls and deliveries behind it, for tests in the same program.
    """

    def __init__(
        self,
        seed: int = 0,
        *,
        repositories: Sequence[str] = (),
        user: str = "standin",
        token: str | None = None,
        installations: Mapping[str, str] | None = None,
        rates: Rates | None = None,
        backoff: Backoff = ONCE,
        clock: Clock | None = None,
    ) -> None:
        self.machinery = build(seed, clock=clock or Clock(), rates=rates, backoff=backoff)
        covered = {INSTALLATION: ""} if installations is None else installations
        self._hooks = Hooks(self.machinery, installations=covered)
        self._ledger = Ledger(self.machinery, self._hooks, user=user, base=lambda: self._heard.address)
        self._access = Access(self.machinery, user, token, covered)
        self._shelves = Shelves(self.machinery, self._ledger, self._access)
        self._voice = GitHubVoice(self.machinery.world)
        self._front = Front(self.machinery, self._voice)
        self._habits = Habits()
        control = Control(self.machinery, self)
        own = [
            route("POST", "/transfer", self._transfer),
            route("GET", "/habits", self._show_habits),
            route("PUT", "/habits", self._set_habits),
            route("PUT", "/hooks", self._set_hooks),
        ]
        api = Api(self.machinery, self._ledger, self._access, self._shelves)
        routes = api.routes(self._front, self._operations())
        self._heard = Heard(Starlette(routes=[*control.routes(), *own, control.no_such_route(), *routes]))
        for name in repositories:
            self._ledger.ensure(name)

    @property
    def app(self) -> ASGIApp:
        """The API and the control routes, as one application."""
        return self._heard

    def serve(self, port: int = 0) -> AbstractContextManager[Running]:
        """Answer on a port of this machine (0: any) while the block runs."""
        return serving(self, port=port)

    def operate(self, operation: Operation) -> Body:
        """Do *operation* and return `kind`, `id` and `version`; raises `Refused` if GitHub would not have it."""
        return self._ledger.operate(operation)

    def truth(self, *, kind: str | None = None, scope: str | None = None) -> list[Body]:
        """Return each object that ever was, with its hidden version, whole and without any fault."""
        return self._ledger.truth(kind=kind, scope=scope)

    def resend(self, event_id: str) -> int:
        """Send the event of a GUID again and return to how many hooks."""
        return self._hooks.resend(event_id)

    def new_endpoint_id(self) -> str:
        """Return the id of a new hook."""
        return str(500_000_000 + self.machinery.world.turn("hook"))

    def close(self) -> None:
        """Stop sending, and let go of calls that hang."""
        self._front.let_go()
        self.machinery.deliveries.close()

    def _operations(self) -> Operations:
        groups = (
            Inside(self._shelves, self._ledger),
            Owners(self._shelves, self._access),
            GraphQL(self._shelves, self._access),
            Hooking(self.machinery, self._ledger, self._hooks, new_id=self.new_endpoint_id),
        )
        return {operation: act for group in groups for operation, act in group.operations().items()}

    def _transfer(self, _: Request, asked: JSON) -> JSON:
        if not isinstance(asked, dict) or not {"scope", "id", "to"} <= asked.keys():
            raise Refused('a transfer is an object such as {"scope": "1", "id": "7", "to": "2"}')
        return self._ledger.transfer(str(asked["scope"]), str(asked["id"]), to=str(asked["to"]))

    def _show_habits(self, _: Request, __: JSON) -> JSON:
        return asdict(self._habits)

    def _set_habits(self, request: Request, asked: JSON) -> JSON:
        habits = habits_from(asked)
        self._habits = habits
        self._access.limit, self._access.hidden = habits.limit, frozenset(habits.hidden)
        self._access.queries, self._access.installed = habits.queries, habits.installed
        if isinstance(asked, dict) and "limit" in asked:
            self._access.forget()
        self._voice.retry_after = habits.retry_after
        self._voice.limit_status = self._access.limit_status = habits.limit_status
        self._shelves.ceilings = Ceilings(habits.ceiling, habits.cursors)
        self._ledger.shifts = habits.shifts
        self._hooks.content_type = habits.content_type
        return self._show_habits(request, None)

    def _set_hooks(self, _: Request, asked: JSON) -> JSON:
        self._hooks.traits = traits_from(asked)
        return {id_: asdict(trait) for id_, trait in self._hooks.traits.items()}


def habits_from(settings: JSON) -> Habits:
    """Return the habits that a control request asks for, all others as at first; raises `Refused` for nonsense."""
    names = [each.name for each in fields(Habits)]
    if not isinstance(settings, dict) or settings.keys() - set(names):
        raise Refused(f"habits are an object with any of {', '.join(names)}")
    for name, value in settings.items():
        if not _sensible(name, value):
            raise Refused(f"{name} cannot be {value!r}")
    return Habits(**settings)


def _sensible(name: str, value: JSON) -> bool:
    if name in {"limit", "ceiling"}:
        return type(value) is int and value >= 0
    if name == "retry_after":
        return value is None or (type(value) is int and value >= 0)
    if name in {"hidden", "shifts"}:
        listed = isinstance(value, list) and all(isinstance(each, str) for each in value)
        return listed and (name == "hidden" or set(value) <= set(SHIFTS))
    choices: Mapping[str, Sequence[JSON]] = {
        "limit_status": (403, 429),
        "cursors": (True, False),
        "content_type": ("json", "form"),
        "queries": (True, False),
        "installed": ("yes", "suspended", "no"),
    }
    return value in choices[name]
