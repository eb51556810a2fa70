"""Calls to Stripe's API: paid for, bounded in time, read exactly, their failures sorted by what to do about them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import UTC
from email.utils import parsedate_to_datetime
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import stripe

from adapters.stripe.wire import NoAnswer, Wire
from reconciler import content
from reconciler.adapter import patiently
from reconciler.errors import AccessLost, SourceBusy, SourceRefused, SourceUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import datetime

    from adapters.stripe.wire import Answer
    from reconciler.adapter import Budget
    from reconciler.errors import SourceError
    from reconciler.model import JSON, Body

PAGE: Final = 100
"""The most a list call gives."""

_LOST: Final = frozenset({401, 403})
_LATER: Final = frozenset({408, 409, 425})  # and every 5xx
_MISSING: Final = frozenset({400, 404})
_OTHER_MODE: Final = "a similar object exists in"

# Why a call was refused with 429: seconds to wait, and whether only that operation has to. Stripe documents no
# Retry-After; a 429 without a reason is a lock on the object (`lock_timeout`) or the global rate.
_HOLDS: Final[Mapping[str, tuple[float, bool]]] = {
    "global-rate": (1.0, False),
    "global-concurrency": (0.5, False),
    "endpoint-rate": (1.0, True),
    "endpoint-concurrency": (0.5, True),
    "resource-specific": (0.5, True),
    "lock_timeout": (0.5, True),
}
_HOLD_ELSE: Final = (1.0, False)

SECRETS: Final = frozenset({"client_secret", "client_token", "cvc_token", "persistent_token", "secret"})
"""Fields that let whoever holds them act: complete a payment, read with a key, sign (SDK, all resource classes)."""

_KEY_LIKE: Final = re.compile(r"\b(?:sk|rk|pk|whsec)_[A-Za-z0-9_*.]+")
_VANISHED_CURSORS: Final = 5


class Missing(SourceRefused):
    """
    The answer `resource_missing`: what a call named does not exist.

    Attributes:
        parameter: The parameter that named it; empty for the path.
        observed_at: The `Date` of the answer.
    """

    def __init__(self, message: str, *, parameter: str, observed_at: datetime) -> None:
        super().__init__(message)
        self.parameter = parameter
        self.observed_at = observed_at


@dataclass(frozen=True, slots=True)
class Answered:
    """A JSON object that Stripe answered with, and its `Date`."""

    body: Body = field(repr=False)
    observed_at: datetime


class Calls:
    """
    Calls of one source.

    Attributes:
        now: Our clock, for answers without a `Date`.
    """

    def __init__(
        self,
        *,
        api_key: str,
        api_version: str,
        api_base: str | None,
        timeout: tuple[float, float],
        budget: Budget,
        clock: Callable[[], datetime],
    ) -> None:
        connect, total = timeout
        self.now = clock
        self._key, self._budget = api_key, budget
        self._wire = Wire(connect=connect, total=total)
        self._client = stripe.StripeClient(
            api_key,
            stripe_version=api_version,
            base_addresses={"api": api_base.rstrip("/")} if api_base else {},
            max_network_retries=0,
            http_client=self._wire,
        )

    def close(self) -> None:
        """Close the connections at rest."""
        self._wire.close()

    def get(self, path: str, parameters: Mapping[str, object] | None = None, *, account: str = "") -> Answered:
        """Return the JSON object at *path*, without secrets; raises `Missing` or another `SourceError`."""
        answered = self._call("GET", path, parameters or {}, account)
        return replace(answered, body=without_secrets(answered.body))

    def change(self, method: str, path: str, parameters: Mapping[str, object], *, account: str = "") -> Body:
        """Make, change or (DELETE) end what is at *path*, and return what it is then; raises a `SourceError`."""
        return self._call(method, path, parameters, account).body

    def _call(self, method: str, path: str, parameters: Mapping[str, object], account: str) -> Answered:
        operation = operation_of(path, method)
        self._budget.spend(operation)
        answer = self._ask(operation, path, account, parameters)
        self._budget.answered(operation, str(answer.status))
        if answer.status != 200:
            raise self._failure(operation, answer)
        try:
            body = content.parse(answer.body)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise SourceUnavailable(f"{operation}: the answer is no JSON object")
        return Answered(body, _date(answer) or self.now())

    def pages(
        self,
        path: str,
        parameters: Mapping[str, object],
        *,
        account: str = "",
        until: float | None = None,
        dated: bool = True,
    ) -> Iterator[tuple[list[Body], datetime]]:
        """
        Yield the objects of each page of a list with its `Date`, to the end.

        Where the object that marked the place has vanished it goes on from the last `created`, so it may repeat itself;
        from the object before it in a list that is not *dated*, which takes no bounds on `created`. A sub-list is given
        *until* (monotonic) to end: it raises `Missing` there. Raises rather than stopping early or going round in
        circles.
        """
        place: dict[str, object] = {}
        passed: set[str] = set()
        marks: list[str] = []
        oldest: JSON = None
        vanished = 0
        while True:
            if until is not None and monotonic() > until:
                raise SourceUnavailable(f"{operation_of(path)}: too many pages for one read")
            try:
                asked = {"limit": PAGE, **_merged(parameters, place)}
                # A sub-list is part of one read, which is put off as a whole.
                answered = (
                    self.get(path, asked, account=account)
                    if until is not None
                    else patiently(partial(self.get, path, asked, account=account))
                )
            except Missing as missing:
                if missing.parameter != "starting_after" or until is not None:
                    raise
                vanished += 1
                place = _other_place(oldest if dated else None, marks)
                if not place or vanished > _VANISHED_CURSORS:
                    raise SourceUnavailable(f"{operation_of(path)}: lost its place: {missing}") from missing
                passed = set()
                continue
            objects = _objects(operation_of(path), answered.body)
            yield objects, answered.observed_at
            if not answered.body.get("has_more"):
                return
            last = objects[-1] if objects else {}
            cursor = last.get("id")
            if not isinstance(cursor, str) or cursor in passed:
                raise SourceUnavailable(f"{operation_of(path)}: the list does not move on after {cursor!r}")
            passed.add(cursor)
            vanished = vanished if isinstance(oldest, int) and last.get("created") == oldest else 0
            oldest = last.get("created")
            marks = [each["id"] for each in objects if isinstance(each.get("id"), str)]
            place = {**place, "starting_after": cursor}

    def _ask(self, operation: str, path: str, account: str, parameters: Mapping[str, object]) -> Answer:
        options = {"stripe_account": account} if account else {}
        try:
            self._client.raw_request(operation.partition(" ")[0].lower(), path, **options, **parameters)
        except NoAnswer as error:
            self._budget.answered(operation, error.how)
            raise SourceUnavailable(f"{operation}: {error}") from None
        except stripe.StripeError:
            pass  # an answer: judged by its own status and bytes, which the SDK's errors do not all keep
        return self._wire.take()

    def _failure(self, operation: str, answer: Answer) -> SourceError:
        error = _error(answer)
        code, words = _text(error.get("code")), _text(error.get("message"))
        said = " ".join(part for part in (f"{operation}: {answer.status}", code or _text(error.get("type"))) if part)
        said = self._without_secrets(f"{said}: {words}" if words else said)[:300]
        retry_after = _retry_after(answer, self.now())
        if answer.status in _LOST or (answer.status in _MISSING and _OTHER_MODE in words):
            return AccessLost(said, what="uninstalled" if code == "account_invalid" else "access_lost")
        if answer.status == 429:
            return self._busy(operation, said, reason=_reason(answer, code), retry_after=retry_after)
        if answer.status in _LATER or answer.status >= 500:
            return SourceUnavailable(said, retry_after=retry_after)
        if answer.status in _MISSING and code == "resource_missing":
            return Missing(said, parameter=_parameter(answer.status, error), observed_at=_date(answer) or self.now())
        return SourceRefused(said)

    def _busy(self, operation: str, said: str, *, reason: str, retry_after: float | None) -> SourceBusy:
        seconds, alone = _HOLDS.get(reason, _HOLD_ELSE)
        seconds = seconds if retry_after is None else retry_after
        self._budget.hold(seconds, operation=operation if alone else None)
        return SourceBusy(said, retry_after=seconds)

    def _without_secrets(self, text: str) -> str:
        return _KEY_LIKE.sub("[key]", text.replace(self._key, "[key]"))


def without_secrets(body: Body) -> Body:
    """Return *body* without what only its owner's pages and programs should have; metadata are the owner's words."""
    kept: Body = content.without(body, SECRETS, but_in="metadata")
    return kept


def operation_of(path: str, method: str = "GET") -> str:
    """Return the name under which Stripe limits calls to *path*: the same for all ids."""
    _, version, *steps = urlsplit(path).path.split("/")
    return "/".join([f"{method} ", version, *("{id}" if place % 2 else step for place, step in enumerate(steps))])


def _other_place(oldest: JSON, marks: list[str]) -> dict[str, object]:
    """Return where to go on from when the last of *marks* has vanished; empty where no place is left."""
    if isinstance(oldest, int):
        return {"created": {"lte": oldest}}
    marks.pop()
    return {"starting_after": marks[-1]} if marks else {}


def _merged(parameters: Mapping[str, object], place: Mapping[str, object]) -> dict[str, object]:
    """Return both, with the bounds on `created` of either."""
    merged = {**parameters, **place}
    bounds = [each["created"] for each in (parameters, place) if "created" in each]
    if bounds:
        merged["created"] = {
            name: value for bound in bounds if isinstance(bound, dict) for name, value in bound.items()
        }
    return merged


def _objects(operation: str, body: Body) -> list[Body]:
    objects = body.get("data")
    if not isinstance(objects, list) or not all(isinstance(each, dict) for each in objects):
        raise SourceUnavailable(f"{operation}: the answer is no list")
    return objects


def _error(answer: Answer) -> Body:
    try:
        body = content.parse(answer.body)
    except ValueError:
        return {}
    error = body.get("error") if isinstance(body, dict) else None
    return error if isinstance(error, dict) else {}


def _parameter(status: int, error: Body) -> str:
    """Return which parameter of a list call named what is missing; a 404 is about the path."""
    return "" if status == 404 else _text(error.get("param")) or "starting_after"


def _reason(answer: Answer, code: str) -> str:
    return answer.headers.get("stripe-rate-limited-reason") or code


def _text(value: JSON) -> str:
    return value if isinstance(value, str) else ""


def _date(answer: Answer, name: str = "date") -> datetime | None:
    try:
        read = parsedate_to_datetime(answer.headers.get(name) or "")
    except ValueError:
        return None
    return read.replace(tzinfo=UTC) if read.tzinfo is None else read.astimezone(UTC)


def _retry_after(answer: Answer, now: datetime) -> float | None:
    """Return the seconds a `Retry-After` asks for, whether it counts them or names a time."""
    asked = (answer.headers.get("retry-after") or "").strip()
    if re.fullmatch(r"[0-9]{1,9}(\.[0-9]+)?", asked, re.ASCII):
        return float(asked)
    then = _date(answer, "retry-after")
    if then is None:
        return None
    return max(0.0, (then - (_date(answer) or now)).total_seconds())
