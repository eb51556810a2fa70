"""Calls to Shopify's Admin API: paid for, bounded in time, read exactly, failures sorted by what to do about them."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC
from decimal import Decimal
from email.utils import parsedate_to_datetime
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import httpx
import shopify

from adapters.shopify.wire import NoAnswer, Wire
from reconciler import content
from reconciler.adapter import Issued, unheard
from reconciler.errors import AccessLost, SourceBusy, SourceRefused, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from reconciler.adapter import Budget, Notices, Tokens
    from reconciler.errors import SourceError
    from reconciler.model import JSON, Body

TOKEN: Final = "POST /admin/oauth/access_token"  # noqa: S105 - the name of a call

# The shop, not the call.
_LOST: Final[Mapping[int, str]] = {
    401: "the app was uninstalled, or its token revoked",
    402: "the shop is frozen for its bills",
    403: "the app may not do this",
    404: "there is no such shop, or it was renamed",
    423: "the shop is locked",
}
_SUSPENDED: Final = frozenset({402, 423})  # a frozen and a locked shop
_LATER: Final = frozenset({408, 425})  # and every 5xx
_TOKEN_LIKE: Final = re.compile(r"\bshp[a-z]{2}_\w+")
_LONGEST_LIFE: Final = 24 * 3600.0  # seconds, of a token whose answer does not say
_LOW: Final = 0.1  # of the bucket: below that, calls are held back
_BUSY_SECONDS: Final = 1.0  # where a throttled answer does not say how full the bucket is


class TooDear(SourceRefused):
    """The query would cost more than a single one may: ask for less at once."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What Shopify answered, and its `Date`."""

    data: Body = field(repr=False)
    observed_at: datetime


@dataclass(frozen=True, slots=True)
class AccessToken:
    """
    A token that was configured.

    Attributes:
        secret: It.
    """

    secret: str = field(repr=False)
    key = "access_token"

    def token(self, calls: Calls) -> str:  # noqa: ARG002 - needs no call
        """Return it."""
        return self.secret

    def renews(self, token: str) -> bool:  # noqa: ARG002 - whichever it was
        """Say that there is no other."""
        return False


@dataclass(frozen=True, slots=True)
class ClientCredentials:
    """
    An id and a secret for which Shopify issues tokens of 24 hours.

    Attributes:
        tokens: Where those are shared.
    """

    id: str
    secret: str = field(repr=False)
    tokens: Tokens
    key = "client_secret"

    def token(self, calls: Calls) -> str:
        """Return the token that all processes share, or a new one."""
        return self.tokens.current(lambda: calls.issue(self.id, self.secret))

    def renews(self, token: str) -> bool:
        """Forget *token*, for all processes."""
        self.tokens.forget(token)
        return True


Credential: TypeAlias = AccessToken | ClientCredentials
"""Where the access token of each call comes from."""


class Calls:
    """
    GraphQL calls of one source.

    The session, its site and its headers are the SDK's; the calls themselves are made over httpx.

    Attributes:
        now: Our clock, for answers without a `Date`.
    """

    def __init__(
        self,
        *,
        shop: str,
        api_version: str,
        api_base: str | None,
        credential: Credential,
        timeout: tuple[float, float],
        budget: Budget,
        clock: Callable[[], datetime],
        notices: Notices = unheard,
    ) -> None:
        connect, total = timeout
        self.now = clock
        self._shop, self._api_version, self._budget, self._notices = shop, api_version, budget, notices
        self._credential = credential
        self._base = f"https://{shop}" if api_base is None else api_base.rstrip("/")
        self._http = httpx.Client(
            transport=Wire(connect=connect, total=total), trust_env=False, follow_redirects=False, timeout=total
        )

    def close(self) -> None:
        """Close the connections at rest."""
        self._http.close()

    def ask(self, operation: str, document: str, variables: Mapping[str, object] | None = None) -> Answered:
        """Return the data that *document* asks for, all of it; raises a `SourceError` for any error in the answer."""
        token = self._credential.token(self)
        answer = self._post(operation, token, document, variables or {})
        if answer.status_code == 401 and self._credential.renews(token):
            answer = self._post(operation, self._credential.token(self), document, variables or {})
        if answer.status_code != 200:
            raise self._failure(operation, answer)
        body = self._body(operation, answer)
        self._heed(body)
        if body.get("errors"):
            raise self._refusal(operation, body)
        data = body.get("data")
        if not isinstance(data, dict):
            raise SourceUnavailable(f"{operation}: the answer holds no data")
        if warned := _warnings(body):
            raise SourceRefused(f"{operation}: the search was not understood: {warned}")
        return Answered(data, _date(answer) or self.now())

    @contextmanager
    def paid(self, operation: str) -> Iterator[Callable[[str], None]]:
        """Pay for a call that is made elsewhere, and yield what is told its answer's status; without one it failed."""
        self._budget.spend(operation)
        told: list[str] = []
        try:
            yield told.append
        finally:
            self._budget.answered(operation, told[0] if told else "refused")

    def issue(self, client_id: str, client_secret: str) -> Issued:
        """Return a new token for a client's credentials; raises a `SourceError`."""
        asked = {"grant_type": "client_credentials", "client_id": client_id, "client_secret": client_secret}
        answer = self._send(
            TOKEN, self._http.build_request("POST", f"{self._base}/admin/oauth/access_token", data=asked)
        )
        if answer.status_code in {400, *_LOST}:
            raise AccessLost(self._said(TOKEN, answer))
        if answer.status_code != 200:
            raise self._failure(TOKEN, answer)
        body = self._body(TOKEN, answer)
        token, seconds = body.get("access_token"), body.get("expires_in")
        if not isinstance(token, str) or re.fullmatch(r"[\x21-\x7e]+", token) is None:
            raise SourceUnavailable(f"{TOKEN}: the answer holds no token")
        life = _amount(seconds) or _LONGEST_LIFE
        return Issued(token, min(life, _LONGEST_LIFE))

    def _post(self, operation: str, token: str, document: str, variables: Mapping[str, object]) -> httpx.Response:
        session = shopify.Session(self._shop, self._api_version, token)
        # Activating the session would make it the one of every thread that has none; its headers are all we need.
        headers = {
            "User-Agent": shopify.ShopifyResource.headers["User-Agent"],
            "X-Shopify-Access-Token": session.token,
        }
        answer = self._send(
            operation,
            self._http.build_request(
                "POST",
                f"{session.api_version.api_path(self._base)}/graphql.json",
                headers=headers,
                json={"query": document, "variables": variables},
            ),
        )
        self._refuse_other_version(operation, answer)
        if reason := answer.headers.get("X-Shopify-API-Deprecated-Reason"):
            self._notices("deprecated", operation, self._without_secrets(reason)[:300])
        return answer

    def _send(self, operation: str, request: httpx.Request) -> httpx.Response:
        self._budget.spend(operation)
        try:
            answer = self._http.send(request)
        except NoAnswer as error:
            self._budget.answered(operation, error.how)
            raise SourceUnavailable(f"{operation}: {error}") from None
        except httpx.HTTPError as error:
            self._budget.answered(operation, "refused")
            raise SourceUnavailable(f"{operation}: {type(error).__name__}") from None
        self._budget.answered(operation, str(answer.status_code))
        return answer

    def _refuse_other_version(self, operation: str, answer: httpx.Response) -> None:
        """Shopify answers calls of a version it no longer serves in its oldest one, whose bodies have another form."""
        spoken = answer.headers.get("X-Shopify-API-Version", self._api_version)
        if answer.status_code == 200 and spoken != self._api_version:
            raise SourceUnavailable(
                f"{operation}: asked in API version {self._api_version}, answered in {spoken!r}: set api_version"
            )

    def _body(self, operation: str, answer: httpx.Response) -> Body:
        try:
            body = content.parse(answer.content)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise SourceUnavailable(f"{operation}: the answer is no JSON object")
        return body

    def _failure(self, operation: str, answer: httpx.Response) -> SourceError:
        """Return what an answer other than 200 means; a redirect leads away from the shop that was asked."""
        said = self._said(operation, answer)
        retry_after = _retry_after(answer, self.now())
        if answer.status_code in _LOST or answer.is_redirect:
            return AccessLost(said, what="suspended" if answer.status_code in _SUSPENDED else "access_lost")
        if answer.status_code == 429:
            return self._busy(said, _BUSY_SECONDS if retry_after is None else retry_after)
        if answer.status_code in _LATER or answer.status_code >= 500:
            return SourceUnavailable(said, retry_after=retry_after)
        return SourceRefused(said)

    def _said(self, operation: str, answer: httpx.Response) -> str:
        try:
            body = content.parse(answer.content)
        except ValueError:
            body = None
        told = (body.get("errors") or body.get("error")) if isinstance(body, dict) else None
        words = told if isinstance(told, str) else "" if told is None else content.dumps(told)
        state = f" ({_LOST[answer.status_code]})" if answer.status_code in _LOST else ""
        return self._without_secrets(f"{operation}: {answer.status_code} {words}".strip())[:200] + state

    def _refusal(self, operation: str, body: Body) -> SourceError:
        """Return what the errors inside a 200 mean: by the gravest of their codes."""
        errors = body["errors"] if isinstance(body["errors"], list) else [{"message": body["errors"]}]
        codes = [_code(error) for error in errors]
        known = next((code for code in _SORTED if code in codes), "")
        error = errors[codes.index(known)] if known else errors[0]
        said = self._without_secrets(f"{operation}: {known} {_message(error)}".replace(":  ", ": "))[:300]
        if known == "THROTTLED":
            return self._busy(said, _seconds_to_wait(body) or _BUSY_SECONDS)
        return _SORTED[known](said) if known else SourceRefused(said)

    def _busy(self, said: str, seconds: float) -> SourceBusy:
        self._budget.hold(seconds)
        return SourceBusy(said, retry_after=seconds)

    def _heed(self, body: Body) -> None:
        """Hold calls back while the bucket is too low for another one like this: Shopify counts points, not calls."""
        seconds = 0.0 if body.get("errors") else _seconds_to_wait(body)
        if seconds > 0:
            self._budget.hold(seconds)

    def _without_secrets(self, text: str) -> str:
        return _TOKEN_LIKE.sub("[token]", text).replace(self._credential.secret, "[secret]")


# Codes of errors inside a 200, the first that occurs decides. What is not here is refused.
_SORTED: Final[Mapping[str, Callable[[str], SourceError]]] = {
    "THROTTLED": SourceBusy,
    "SHOP_INACTIVE": partial(AccessLost, what="suspended"),
    "ACCESS_DENIED": AccessLost,
    "INTERNAL_SERVER_ERROR": SourceUnavailable,
    "TIMEOUT": SourceUnavailable,
    "MAX_COST_EXCEEDED": TooDear,
}


def _code(error: JSON) -> str:
    code = content.find(error, "/extensions/code")
    return code if isinstance(code, str) else ""


def _message(error: JSON) -> str:
    message = content.find(error, "/message")
    return message if isinstance(message, str) else ""


def _warnings(body: Body) -> str:
    """Return what Shopify says about a search it did not understand: it drops what it does not know, in silence."""
    searches = content.find(body, "/extensions/search")
    warned = [
        f"{content.find(warning, '/field')}: {_message(warning)}"
        for search in (searches if isinstance(searches, list) else [])
        for warning in content.find(search, "/warnings") or []
    ]
    return "; ".join(warned)[:300]


def _seconds_to_wait(body: Body) -> float:
    """Return how long until the bucket holds what this call asked for, and a reserve for the calls beside it."""
    most, left, rate, cost = (
        _amount(content.find(body, f"/extensions/cost/{name}"))
        for name in (
            "throttleStatus/maximumAvailable",
            "throttleStatus/currentlyAvailable",
            "throttleStatus/restoreRate",
            "requestedQueryCost",
        )
    )
    return max(0.0, (max(cost, most * _LOW) - left) / rate) if rate > 0 else 0.0


def _amount(value: JSON) -> float:
    return float(value) if isinstance(value, int | Decimal) else 0.0


def _date(answer: httpx.Response, name: str = "date") -> datetime | None:
    try:
        read = parsedate_to_datetime(answer.headers.get(name) or "")
    except ValueError:
        return None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


def _retry_after(answer: httpx.Response, now: datetime) -> float | None:
    """Return the seconds a `Retry-After` asks for, whether it counts them or names a time."""
    asked = answer.headers.get("retry-after", "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", asked, re.ASCII):
        return float(asked)
    then = _date(answer, "retry-after")
    return None if then is None else max(0.0, (then - (_date(answer) or now)).total_seconds())
