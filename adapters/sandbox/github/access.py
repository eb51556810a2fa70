"""Who may see what: personal tokens, an app's JSON Web Tokens, installation tokens, and access that is lost."""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from adapters.sandbox.github.answers import Denied
from adapters.sandbox.github.bodies import number_of, stamp
from adapters.sandbox.github.hooks import APP_ID
from reconciler.content import parse

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.world import Body

TOKEN_LIFE = 3600
"""Seconds an installation token lives."""

ANONYMOUS_LIMIT = 60
LONGEST_JWT = 600
"""Seconds an app's own token may live."""

_TEST_TOKENS = ("ghp_", "github_pat_", "gho_")
_WINDOW = 3600


@dataclass(frozen=True, slots=True)
class Visit:
    """
    A call that was let in.

    Attributes:
        who: What its rate limit is counted for.
        sort: `token`, `installation`, `app` or `anonymous`.
        owner: The owner whose repositories it sees; empty: all.
        installation: The id of the installation it acts for.
    """

    who: str
    sort: str
    owner: str = ""
    installation: str = ""
    blind: bool = False


@dataclass(slots=True)
class Allowance:
    """Calls that one caller has left in this hour."""

    limit: int
    ends: int
    used: int = 0
    resource: str = "core"

    def headers(self) -> Mapping[str, str]:
        """Return what every answer says of it."""
        return {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(max(0, self.limit - self.used)),
            "X-RateLimit-Used": str(self.used),
            "X-RateLimit-Reset": str(self.ends),
            "X-RateLimit-Resource": self.resource,
        }

    def shown(self) -> Body:
        """Return it as `GET /rate_limit` does."""
        return {"limit": self.limit, "used": self.used, "remaining": max(0, self.limit - self.used), "reset": self.ends}


@dataclass(frozen=True, slots=True)
class Minted:
    """An installation token."""

    installation: str
    ends: int


@dataclass(slots=True)
class Access:
    """
    Lets calls in or refuses them as GitHub does.

    Attributes:
        token: The only personal token there is; None: whatever looks like one.
        installations: The app's installations, each with the owner it covers; empty: all owners.
        hidden: Repositories, by number, that nobody sees any more.
        limit: Calls an hour.
        limit_status: How a call after the last is answered: 403 or 429.
        queries: Whether GraphQL answers anybody.
        installed: `yes`, or what became of the app's installations: `suspended` or `no`.
    """

    machinery: Machinery
    user: str
    token: str | None
    installations: Mapping[str, str]
    hidden: frozenset[str] = frozenset()
    limit: int = 5000
    limit_status: int = 403
    queries: bool = True
    installed: str = "yes"
    _minted: dict[str, Minted] = field(default_factory=dict)
    _allowances: dict[tuple[str, str], Allowance] = field(default_factory=dict)

    def visit(self, request: Request) -> Visit:
        """Return what this call may see; raises `Denied` if nothing."""
        if not request.headers.get("User-Agent"):
            message = (
                "Request forbidden by administrative rules. Please make sure your request has a User-Agent header."
            )
            raise Denied(403, message)
        scheme, _, credentials = request.headers.get("Authorization", "").partition(" ")
        credentials = credentials.strip()
        if not scheme:
            return self._let_in(Visit("anonymous", "anonymous"))
        if scheme.lower() == "basic":
            credentials = _password(credentials)
        elif scheme.lower() not in {"token", "bearer"}:
            raise bad_credentials()
        return self._let_in(self._known(credentials))

    def sees(self, visit: Visit, number: str, repository: Body) -> bool:
        """Tell whether *visit* may see a repository at all; whoever may not is told that there is none."""
        if visit.blind or number in self.hidden or visit.sort == "app":
            return False
        if visit.sort == "anonymous":
            return not repository["private"]
        return not visit.owner or visit.owner.lower() == repository["_owner"].lower()

    def mint(self, installation: str) -> Body:
        """Return a new token of an installation."""
        ends = int(self.machinery.clock.now()) + TOKEN_LIFE
        token = self.machinery.world.new_id("ghs_", length=36)
        self._minted[token] = Minted(installation, ends)
        return {
            "token": token,
            "expires_at": stamp(ends),
            "permissions": {"issues": "read", "metadata": "read", "contents": "read", "pull_requests": "read"},
            "repository_selection": "all",
        }

    def allowance(self, visit: Visit, *, resource: str = "core") -> Allowance:
        """Return what *visit* has left in this hour, of calls or of queries."""
        now = int(self.machinery.clock.now())
        found = self._allowances.get((visit.who, resource))
        if found is None or found.ends <= now:
            found = Allowance(0, now + _WINDOW, resource=resource)
            self._allowances[visit.who, resource] = found
        found.limit = ANONYMOUS_LIMIT if visit.sort == "anonymous" else self.limit
        return found

    def forget(self) -> None:
        """Give every caller a whole hour's calls again."""
        self._allowances.clear()

    def check_installed(self, status: int) -> None:
        """Raise `Denied` where the app's installations are suspended, or gone: then with *status*."""
        if self.installed == "suspended":
            raise Denied(403, "This installation has been suspended")
        if self.installed == "no":
            raise bad_credentials() if status == 401 else Denied(status, "Not Found")

    def _known(self, credentials: str) -> Visit:
        who = hashlib.sha256(credentials.encode()).hexdigest()[:16]
        if credentials.count(".") == 2:
            self._check_jwt(credentials)
            return Visit(f"app {APP_ID}", "app")
        if credentials in self._minted:
            self.check_installed(401)
        minted = self._minted.get(credentials)
        if minted is not None and minted.ends > self.machinery.clock.now():
            owner = self.installations.get(minted.installation, "")
            return Visit(f"installation {minted.installation}", "installation", owner, minted.installation)
        opens = credentials == self.token if self.token is not None else credentials.startswith(_TEST_TOKENS)
        if not opens:
            raise bad_credentials()
        return Visit(f"token {who}", "token")

    def _let_in(self, visit: Visit) -> Visit:
        lost = self.machinery.mischief.faults.lost_access
        if lost == "401":
            raise bad_credentials()
        if lost == "403":
            raise not_permitted(visit.sort)
        if lost == "404":
            return Visit(visit.who, visit.sort, visit.owner, visit.installation, blind=True)
        return visit

    def _check_jwt(self, token: str) -> None:
        """Raise `Denied` unless the claims are as GitHub wants them; whoever signed it is not looked at."""
        header, claims = (_part(part) for part in token.split(".")[:2])
        now = self.machinery.clock.now()
        issued, ends = claims.get("iat"), claims.get("exp")
        if header.get("alg") != "RS256" or str(claims.get("iss")) != str(APP_ID):
            raise no_jwt()
        if not isinstance(ends, int) or not isinstance(issued, int) or ends <= now:
            message = "'Expiration time' claim ('exp') must be a numeric value representing the future time"
            raise Denied(401, message)
        if ends - now > LONGEST_JWT + 60:
            raise Denied(401, "'Expiration time' claim ('exp') is too far in the future")
        if issued > now + 60:
            message = "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
            raise Denied(401, message)


def bad_credentials() -> Denied:
    """Return the refusal of a credential that opens nothing."""
    return Denied(401, "Bad credentials")


def not_permitted(sort: str) -> Denied:
    """Return the refusal of a credential that may not do this: a 403 that no waiting helps."""
    return Denied(
        403, f"Resource not accessible by {'integration' if sort == 'installation' else 'personal access token'}"
    )


def no_jwt() -> Denied:
    """Return the refusal of what is no app's own token where one is needed."""
    return Denied(401, "A JSON web token could not be decoded")


def primary_limit(user: str, *, status: int) -> Denied:
    """Return the refusal of a call after the hour's last."""
    message = f"API rate limit exceeded for user ID {number_of(user)}."
    return Denied(status, message, docs="rest/overview/rate-limits-for-the-rest-api")


def _password(credentials: str) -> str:
    try:
        return base64.b64decode(credentials).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _part(encoded: str) -> Body:
    try:
        read = parse(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except ValueError:
        read = None
    if not isinstance(read, dict):
        raise no_jwt()
    return read
