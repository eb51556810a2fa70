"""Calls to GitHub's API: paid for, bounded in time, read exactly, their failures sorted by what to do about them."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final, cast
from urllib.parse import urlsplit

import github
from github import Auth

from adapters.github.wire import Exchange, NoAnswer, Wire
from reconciler import content
from reconciler.adapter import patiently, unheard
from reconciler.errors import AccessLost, ConfigError, SourceBusy, SourceRefused, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from github.Requester import HTTPRequestsConnectionClass

    from adapters.github.wire import Answer
    from reconciler.adapter import Budget, Notices
    from reconciler.errors import SourceError
    from reconciler.model import JSON, Body

PAGE: Final = 100
"""The most a list call gives."""

REDIRECTS: Final = frozenset({301, 302, 307, 308})
HOPS: Final = 3
"""How often a call is led on before it is given up."""

_API: Final = "https://api.github.com"
_TELLING: Final = frozenset({200, 304, 404, 410}) | REDIRECTS
_DONE: Final = frozenset({200, 201, 202, 204})
_LOST: Final = frozenset({401, 403, 451})
_LATER: Final = frozenset({202, 408, 425})  # and every 5xx
_LIMITING: Final = frozenset({403, 429})
_SECONDARY: Final = re.compile("secondary rate limit|abuse detection", re.IGNORECASE)
_FIRST_WAIT, _LONGEST_WAIT = 60.0, 900.0
_RENEWED_BEFORE: Final = 300.0  # seconds before an installation's token ends
_SHORTEST_TOKEN: Final = 60.0
_SUSPENDED: Final = re.compile(r"\bsuspended\b", re.IGNORECASE)
_TOKEN_LIKE: Final = re.compile(r"\b(?:gh[a-z]_|github_pat_|v1\.)\w+")
_NEXT: Final = re.compile(r'<([^<>]*)>\s*;[^<>]*\brel="?next"?')
QUERIES: Final = "POST /graphql"
"""What queries are called in budgets."""

_WRAPPED: Final = ("repositories", "workflow_runs")
"""Lists that come in an object, by what they are called there."""

_MINT: Final = "POST /app/installations/{id}/access_tokens"


@dataclass(frozen=True, slots=True)
class App:
    """
    One installation of a GitHub App.

    Attributes:
        private_key: PEM.
    """

    app_id: int
    private_key: str = field(repr=False)
    installation_id: int


@dataclass(frozen=True, slots=True)
class Listed:
    """
    One page of a list.

    Attributes:
        further: Where the next one is; empty at the end.
        etag: By which it can be asked for again; empty where there is none.
        unchanged: It still is what the ETag it was asked with stands for; it then shows nothing.
        total: How many there are on all pages, where that is told.
    """

    objects: list[Body] = field(repr=False)
    observed_at: datetime
    further: str
    etag: str
    unchanged: bool = False
    total: int | None = None


class Gone(SourceRefused):
    """The answer 410 to a list: what it lists is switched off."""


class Calls:
    """
    Calls of one source.

    Attributes:
        app: The installation; None where there is a token.
        now: Our clock, for answers without a `Date`.
    """

    def __init__(
        self,
        credential: str | App,
        *,
        api_version: str,
        api_base: str | None,
        timeout: tuple[float, float],
        budget: Budget,
        clock: Callable[[], datetime],
        notices: Notices = unheard,
    ) -> None:
        connect, total = timeout
        self.now = clock
        self._notices = notices
        self.app = credential if isinstance(credential, App) else None
        self._base, self._api_version, self._budget = api_base or _API, api_version, budget
        self._wire = Wire(self._base, connect=connect, total=total)
        self._auth = _auth(credential)
        self._token: tuple[float, Auth.Token] | None = None
        self._minting, self._patience = threading.Lock(), connect + total
        self._mine = _Mine()
        self._refusals = 0

    def close(self) -> None:
        """Close the connections at rest."""
        self._wire.close()

    def ask(
        self, operation: str, target: str, parameters: Mapping[str, object] | None = None, *, etag: str = ""
    ) -> Answer:
        """
        Return the answer 200, 304, 404, 410 or a redirect, which is not followed; raises what any other means.

        *target* begins with a slash, after which it may have a query of its own.
        """
        auth = self._pass()
        answer = self._exchange("GET", operation, target, auth, parameters, etag)
        if answer.status == 401 and self.app is not None:
            self._forget(auth)
            answer = self._exchange("GET", operation, target, self._pass(), parameters, etag)
        if answer.status not in _TELLING:
            raise self._failure(operation, answer)
        self._refusals = 0
        self._rest_where_none_is_left(answer)
        return answer

    def page(
        self, operation: str, target: str, parameters: Mapping[str, object] | None = None, *, etag: str = ""
    ) -> Listed:
        """
        Return one page; follows redirects that stay in the same repository, and takes the query along.

        Raises `Gone`, and `AccessLost` where there is no such list to see.
        """
        asked = target
        for _ in range(HOPS):
            answer = patiently(partial(self.ask, operation, target, parameters, etag=etag))
            if answer.status not in REDIRECTS:
                return self._listed(operation, answer)
            target = self.led_to(operation, answer)
            if _repository(target) != _repository(asked):
                raise SourceUnavailable(f"{operation}: {answer.status}: led to another repository")
            parameters = None if urlsplit(target).query else parameters
        raise SourceUnavailable(f"{operation}: led on and on")

    def query(self, document: str, variables: Body) -> Body:
        """
        Return the data of a GraphQL query; where parts of it were refused they are null, and so they are taken.

        Raises `SourceUnavailable` where there is none, and what any status but 200 means.
        """
        auth = self._pass()
        sent = {"query": document, "variables": variables}
        answer = self._exchange("POST", QUERIES, self._client(auth).requester.graphql_url, auth, sent=sent)
        if answer.status != 200:
            raise self._failure(QUERIES, answer)
        self._rest_where_none_is_left(answer)
        body = self.body(QUERIES, answer)
        shown, errors = body.get("data"), body.get("errors")
        if any(isinstance(each, dict) and each.get("type") == "RATE_LIMITED" for each in errors or ()):
            wait = self._until_reset(answer)
            self._budget.hold(wait, operation=QUERIES)
            raise SourceBusy(f"{QUERIES}: no points are left", retry_after=wait)
        if not isinstance(shown, dict):
            raise SourceUnavailable(f"{QUERIES}: the answer shows nothing")
        return shown

    def change(self, method: str, operation: str, target: str, sent: Body) -> Answer:
        """Make or change what is at *target*; raises what any answer but success means."""
        answer = self._exchange(method, f"{method} {operation}", target, self._pass(), sent=sent)
        if answer.status not in _DONE:
            raise self._failure(operation, answer)
        self._rest_where_none_is_left(answer)
        return answer

    def ask_as_app(self, method: str, operation: str, target: str) -> Answer:
        """Return the answer to a call that only the app itself may make, not its installation."""
        answer = self._exchange(method, f"{method} {operation}", target, self._auth)
        if answer.status not in _DONE:
            raise self._failure(operation, answer)
        return answer

    def listed(self, operation: str, answer: Answer) -> Listed:
        """Return *answer* as the page of a list that it is."""
        return self._listed(operation, answer)

    def body(self, operation: str, answer: Answer) -> Body:
        """Return the JSON object that *answer* is; raises `SourceUnavailable` where it is none."""
        body = _parsed(answer)
        if not isinstance(body, dict):
            raise SourceUnavailable(f"{operation}: the answer is no JSON object")
        return body

    def led_to(self, operation: str, answer: Answer) -> str:
        """Return the target that a redirect names; raises `SourceUnavailable` if that is not in this API."""
        return self._own(operation, answer.headers.get("location", ""))

    def observed_at(self, answer: Answer) -> datetime:
        """Return the `Date` of *answer*, or our time."""
        return _date(answer.headers.get("date", "")) or self.now()

    def said(self, operation: str, answer: Answer) -> str:
        """Return what *answer* says went wrong, without secrets."""
        words = f": {message}" if (message := message_of(answer)) else ""
        return self._without_secrets(f"{operation}: {answer.status}{words}")[:300]

    def _exchange(  # noqa: PLR0917 - a call has these parts
        self,
        method: str,
        operation: str,
        target: str,
        auth: Auth.Auth,
        parameters: Mapping[str, object] | None = None,
        etag: str = "",
        sent: Body | None = None,
    ) -> Answer:
        self._budget.spend(operation)
        exchange = Exchange(self._wire)
        headers = {"Accept": "application/vnd.github+json"} | ({"If-None-Match": etag} if etag else {})
        try:
            self._client(auth).requester.requestJson(
                method,
                target,
                parameters=dict(parameters or {}),
                headers=headers,
                input=sent,
                cnx=cast("HTTPRequestsConnectionClass", exchange),
            )
        except NoAnswer as error:
            self._budget.answered(operation, error.how)
            raise SourceUnavailable(f"{operation}: {error}") from None
        self._budget.answered(operation, str(exchange.answer.status))
        self._hear(operation, exchange.answer)
        return exchange.answer

    def _hear(self, operation: str, answer: Answer) -> None:
        """Pass on that a call, or the version it was made in, will not be answered for ever."""
        told = [f"{name}: {answer.headers[name]}" for name in ("deprecation", "sunset") if answer.headers.get(name)]
        if told:
            self._notices("deprecated", operation, self._without_secrets(", ".join(told))[:300])

    def _client(self, auth: Auth.Auth) -> github.Github:
        """Return this thread's client: the SDK's are not safe to share."""
        held = self._mine.held
        if held is None or held[0] is not auth:
            client = github.Github(
                auth=auth,
                base_url=self._base,
                user_agent="reconciler",
                per_page=PAGE,
                retry=None,
                seconds_between_requests=0,
                seconds_between_writes=0,
                lazy=False,
                api_version=self._api_version,
            )
            held = self._mine.held = (auth, client)
        return held[1]

    # --- who we are ---

    def _pass(self) -> Auth.Auth:
        """Return what authenticates a call: the token, or that of the installation, renewed before it ends."""
        if self.app is None:
            return self._auth
        # Whoever asks for a token may wait for its budget, longer than others can for it.
        if not self._minting.acquire(timeout=self._patience):
            raise SourceUnavailable("the token of the installation is still being renewed")
        try:
            held = self._token
            if held is None or monotonic() >= held[0]:
                held = self._token = self._minted(self.app)
            return held[1]
        finally:
            self._minting.release()

    def _forget(self, auth: Auth.Auth) -> None:
        """Have a token that was refused renewed, unless another thread did so already."""
        held = self._token
        if held is not None and held[1] is auth:
            self._token = None

    def _minted(self, app: App) -> tuple[float, Auth.Token]:
        target = f"/app/installations/{app.installation_id}/access_tokens"
        began = monotonic()
        answer = self._exchange("POST", _MINT, target, self._auth)
        if answer.status == 404:
            raise AccessLost(
                f"the app is not installed there, or not any more: {self.said(_MINT, answer)}", what="uninstalled"
            )
        if answer.status == 403 and _SUSPENDED.search(message_of(answer)):
            raise AccessLost(f"the installation is suspended: {self.said(_MINT, answer)}", what="suspended")
        if answer.status not in {200, 201}:
            raise self._failure(_MINT, answer)
        body = self.body(_MINT, answer)
        token, ends = body.get("token"), instant(body.get("expires_at"))
        if not isinstance(token, str) or not token or ends is None:
            raise SourceUnavailable(f"{_MINT}: the answer holds no token")
        lasts = (ends - self.observed_at(answer)).total_seconds() - _RENEWED_BEFORE
        return began + max(lasts, _SHORTEST_TOKEN), Auth.Token(token)

    # --- what an answer means ---

    def _listed(self, operation: str, answer: Answer) -> Listed:
        if answer.status == 404:
            raise AccessLost(self.said(operation, answer))
        if answer.status == 410:
            raise Gone(self.said(operation, answer))
        observed_at, etag = self.observed_at(answer), answer.headers.get("etag", "")
        if answer.status == 304:
            return Listed([], observed_at, "", etag, unchanged=True)
        found = _parsed(answer)
        total = found.get("total_count") if isinstance(found, dict) else None
        objects = next((found[name] for name in _WRAPPED if name in found), None) if isinstance(found, dict) else found
        if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
            raise SourceUnavailable(f"{operation}: the answer is no list")
        link = _NEXT.search(answer.headers.get("link", ""))
        further = self._own(operation, link[1]) if link else ""
        return Listed(objects, observed_at, further, etag, total=total if isinstance(total, int) else None)

    def _own(self, operation: str, url: str) -> str:
        """Return the target of *url*, which must not lead the credential to another host."""
        base = urlsplit(self._base)
        try:
            parts = urlsplit(url, scheme=base.scheme)
        except ValueError:
            parts = urlsplit("")
        same = (parts.scheme, parts.netloc or base.netloc) == (base.scheme, base.netloc)
        if not same or not parts.path.startswith(f"{base.path}/"):
            raise SourceUnavailable(f"{operation}: led out of the API")
        path = parts.path.removeprefix(base.path)
        return f"{path}?{parts.query}" if parts.query else path

    def _failure(self, operation: str, answer: Answer) -> SourceError:
        said = self.said(operation, answer)
        if answer.status in _LIMITING and (wait := self._wait(answer)) is not None:
            self._budget.hold(wait)
            return SourceBusy(said, retry_after=wait)
        if answer.status in _LOST:
            suspended = answer.status == 403 and _SUSPENDED.search(message_of(answer)) is not None
            return AccessLost(said, what="suspended" if suspended else "access_lost")
        if answer.status in _LATER or answer.status >= 500:
            return SourceUnavailable(said, retry_after=self._retry_after(answer))
        return SourceRefused(said)

    def _wait(self, answer: Answer) -> float | None:
        """Return for how many seconds a limit asks us to be silent; None: it is no limit that refused."""
        asked = self._retry_after(answer)
        if asked is not None:
            return asked
        if answer.headers.get("x-ratelimit-remaining") == "0":
            return self._until_reset(answer)
        if answer.status == 429 or _SECONDARY.search(message_of(answer)):
            # "at least one minute", longer each time: https://docs.github.com/en/rest/using-the-rest-api
            self._refusals += 1
            return float(min(_FIRST_WAIT * 2 ** min(self._refusals - 1, 10), _LONGEST_WAIT))
        return None

    def _rest_where_none_is_left(self, answer: Answer) -> None:
        """Hold what counts together with a call: queries have an allowance of their own."""
        if answer.headers.get("x-ratelimit-remaining") == "0":
            queried = answer.headers.get("x-ratelimit-resource") == "graphql"
            self._budget.hold(self._until_reset(answer), operation=QUERIES if queried else None)

    def _until_reset(self, answer: Answer) -> float:
        reset = answer.headers.get("x-ratelimit-reset", "")
        if not re.fullmatch("[0-9]{1,12}", reset, re.ASCII):
            return _FIRST_WAIT
        return max(1.0, int(reset) - self.observed_at(answer).timestamp())

    def _retry_after(self, answer: Answer) -> float | None:
        """Return the seconds a `Retry-After` asks for, whether it counts them or names a time."""
        asked = answer.headers.get("retry-after", "").strip()
        if re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", asked, re.ASCII):
            return float(asked)
        then = _date(asked)
        return None if then is None else max(0.0, (then - self.observed_at(answer)).total_seconds())

    def _without_secrets(self, text: str) -> str:
        if isinstance(self._auth, Auth.Token):
            text = text.replace(self._auth.token, "[token]")
        return _TOKEN_LIKE.sub("[token]", text)


class _Mine(threading.local):
    """What a thread holds: its client, and whom that speaks for."""

    held: tuple[Auth.Auth, github.Github] | None = None


def instant(value: JSON) -> datetime | None:
    """Return the time that an ISO 8601 text tells, UTC where it names no zone; None where it tells none."""
    if not isinstance(value, str):
        return None
    try:
        told = datetime.fromisoformat(value)
        return told.replace(tzinfo=UTC) if told.tzinfo is None else told.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def message_of(answer: Answer) -> str:
    """Return the message of an error; empty where it has none."""
    body = _parsed(answer)
    message = body.get("message") if isinstance(body, dict) else None
    return message if isinstance(message, str) else ""


def _auth(credential: str | App) -> Auth.Auth:
    """Return what the SDK authenticates with; raises `ConfigError` where that cannot be."""
    if not isinstance(credential, App):
        if not re.fullmatch(r"[\x21-\x7e]+", credential):
            raise ConfigError("token: empty, or holds a space, line break or non-ASCII character")
        return Auth.Token(credential)
    try:
        auth = Auth.AppAuth(credential.app_id, credential.private_key)
        auth.create_jwt()
    except Exception as error:  # noqa: BLE001 - each library below has its own for a key that is none
        raise ConfigError(f"private_key: no RSA key in PEM ({type(error).__name__})") from None
    return auth


def _parsed(answer: Answer) -> JSON:
    try:
        return content.parse(answer.body)
    except ValueError:
        return None


def _repository(target: str) -> str | None:
    """Return the number of the repository that *target* is in; None where it names none."""
    number = re.match(r"/repositories/([^/?]+)", target)
    return number[1] if number else None


def _date(text: str) -> datetime | None:
    try:
        read = parsedate_to_datetime(text)
    except ValueError:
        return None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)
