"""
GitHub: repositories and what is in them, from issues to workflow runs, and the teams and members of organizations.

Facts marked SDK were read in PyGithub 2.10; GHD and OAS are GitHub's documentation and OpenAPI description; AB is how
a production connector does it (airbyte-source-github 2.7.1); [U] is not confirmed.

Signature
    `X-Hub-Signature-256: sha256=<hex>`, HMAC-SHA256 over the raw body, keyed with the secret's bytes (GHD,
    validating-webhook-deliveries). One signature, whatever the number of secrets: while a secret is changed both have
    to be configured here. It covers no time, so a replay is authentic: it costs a fetch and changes nothing.
    `X-Hub-Signature` (SHA-1) vouches for nothing. A form body (`payload=`) is signed as it comes, encoded.

Event id
    `X-GitHub-Delivery` and `X-GitHub-Hook-ID`: the GUID stays the same when a delivery is sent again by hand (GHD,
    best-practices-for-using-webhooks), and sources differ on whether the hooks of a repository, its organization and an
    app share it. Neither header is signed. There is no time of the event: the object's own stamp is used. Nothing but
    an object's number is believed, whatever the action says; a payload's repository tells whose it is.

Stamp
    `updated_at` in whole seconds, UTC; labels have none (OAS). It does not move with all that is shown: labels renamed
    or deleted, reactions, counters, `mergeable`. A stamp is left out where a payload may show an older state: of what
    was deleted or transferred, and of a repository in any event but its own.

Changed since
    Issues and comments: `since`, inclusive, oldest change first. Each page is followed by the list from the last stamp
    on, for page numbers shift while objects change; only where a page holds one stamp alone is its link followed, and
    the page before looked at again.
    `since=1970...` shows nothing (AB): everything is listed without it. Issues come with pull requests among them,
    which are not issues. Pull requests and an account's repositories: latest change first, until one is too old; what
    changes meanwhile is in the next window. Both lists show less than a fetch: hints. Releases, labels and milestones
    are few, and listed whole. `state` is `open` unless asked otherwise. Links are followed, pages never counted.
    A crawl by page number is looked at again, with ETags: where a page shows other objects, it starts over.
    Workflow runs: by creation, a search that shows a thousand at most, so longer spans are halved; one that is run
    again keeps its creation. Reviews: of each pull request that changed. Jobs, checks and statuses of deployments could
    be listed for each run, commit or deployment only, which is more than they are worth: events, and rereads of those
    that are not finished. Teams and members: all of them, as hints, for lists show no stamp and no role. A branch is
    mirrored as its list shows it. Discussions are shown by GraphQL alone, and are not mirrored.
    In a light pass over many repositories GraphQL tells first which of them moved, a hundred in a call: an issue or
    pull request that it does not show as changed did not change; other kinds wait for the night unless they moved.

Gone
    410 on an issue whose message says that it was deleted; 404, which lost access answers as well, so that the
    repository has to be readable. 301 from an issue to another repository or number: it was transferred, and is not
    here any more (its event names the new place). An issue that by now is a pull request is no issue any more. 410 for
    issues that are switched off, or for a retired API version, is no absence. A label is absent when the list of labels
    does not show its id: its name, by which it is fetched, may be another's by now. So may a member's login: a 404 on
    the person's number, or on the membership. A branch that was renamed answers 301, too.
    An app that was uninstalled gets no token any more (404), one that is suspended a 403: lost access, and no absence.

Limits
    5,000 calls an hour, for installations up to 12,500 (GHD, rate-limits-for-the-rest-api): told by headers, and when
    none is left nobody calls until the reset. Besides, at most 100 calls at a time and 900 points a minute, a GET being
    one; that refusal is a 403 or 429, often without any header. A 304 is free of the hourly limit only. Queries have an
    hour of their own, 5,000 points, told by `x-ratelimit-resource`; one of ours is a handful.

Numbers identify: `/repositories/{number}/...` works whatever the repository's name is, by then or by now, and names are
only used to find the numbers of configured repositories. Redirects are followed by hand, and only to the same object.
The private token in a repository (`temp_clone_token`) is not handed on.

PyGithub makes each request (address, version, authentication) for a connection of ours (wire.py), handed to its
`requestJson`: by itself it has no deadline for a whole answer, follows a 301 and loses its query, takes a 302 for data,
and sleeps on a 202 or a limit (SDK, Requester.py). One client a thread: two threads with one would exchange answers.
Tokens of an installation are asked for here, once for all threads, with the SDK's `AppAuth`. Bodies are parsed from the
raw bytes.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, quote, unquote

from adapters.github import events
from adapters.github.calls import HOPS, QUERIES, REDIRECTS, App, Calls, Gone, instant, message_of
from adapters.github.counting import counted
from adapters.github.kinds import KINDS
from adapters.github.lists import Lists, Shelf, counting, iso
from adapters.github.places import Places
from adapters.github.probing import FEW, Probing
from adapters.github.rows import Home, Walk
from adapters.github.signature import vouched
from adapters.github.subscriptions import Subscriptions
from reconciler import content
from reconciler.adapter import Count, Listing, unheard
from reconciler.errors import AccessLost, ConfigError, DeliveryMalformed, SourceRefused, SourceUnavailable
from reconciler.model import Hint, Notification, ObjectRef, Page, Proof, Snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from adapters.github.calls import Listed
    from adapters.github.probing import Probed
    from adapters.github.rows import Row
    from adapters.github.wire import Answer
    from reconciler.adapter import Budget, Kind, Mended, Notices, Subscription, Undelivered, Validators
    from reconciler.model import JSON, Body, Delivery

__all__ = ["KINDS", "QUERIES", "App", "GitHub", "Limits", "limits"]

_VERSION: Final = "1"  # of the form in which this adapter hands on bodies
_POINTS_A_SECOND: Final = 900 / 60
_CALLS_AN_HOUR: Final = 5000
_QUERIES_AN_HOUR: Final = 800
SECRETS: Final = frozenset({"secret", "temp_clone_token"})
"""Fields that open a private repository, or sign, for whoever holds them, and are in no row and no stored payload."""

_AT_ONCE: Final = 100
_REPOSITORY: Final = "repository"
_PLACES_MOVE: Final = frozenset({"installation", "installation_repositories", "repository"})
_BEFORE_GITHUB: Final = datetime(2007, 1, 1, tzinfo=UTC)
_SKEW: Final = timedelta(days=1)
_PERSON: Final = "GET /user/{id}"
_ONE_REPOSITORY: Final = "GET /repositories/{id}"
_SWITCHED_OFF_WITH_ISSUES: Final = frozenset({"issue", "issue_comment"})
_PERMANENT: Final = frozenset({301, 308})
_DELETED: Final = re.compile(r"\bdeleted\b", re.IGNORECASE)
_FORM: Final = "application/x-www-form-urlencoded"
_WORD: Final = re.compile(r"[\x21-\x7e]{1,200}")


@dataclass(frozen=True, slots=True)
class Limits:
    """
    How often GitHub may be called for one source.

    Attributes:
        calls_per_second: All calls together, by the secondary limit of points.
        calls_per_hour: The least that a token has; answers tell what is left, and the adapter holds when nothing is.
        at_once: Calls under way together.
        queries_per_hour: Of GraphQL, which has an allowance of its own: points, of which one of ours takes a handful.
    """

    calls_per_second: float
    calls_per_hour: int
    at_once: int
    queries_per_hour: int


def limits(calls_per_second: float | None = None) -> Limits:
    """Return what GitHub allows; *calls_per_second* overrides the rate of calls."""
    return Limits(
        _POINTS_A_SECOND if calls_per_second is None else calls_per_second, _CALLS_AN_HOUR, _AT_ONCE, _QUERIES_AN_HOUR
    )


class GitHub:
    """
    What one credential sees of GitHub: the configured repositories and those of organizations.

    Attributes:
        provider: `github`.
        source: The configured name.
        kinds: The kinds this source mirrors, by name.
    """

    provider = "github"

    def __init__(  # noqa: PLR0913 - each is something else that it is handed
        self,
        source: str,
        *,
        credential: str | App,
        repositories: Sequence[str],
        organizations: Sequence[str],
        webhook_secrets: Sequence[str],
        kinds: Collection[str] | None,
        budget: Budget,
        validators: Validators,
        api_version: str,
        clock: Callable[[], datetime],
        api_base: str | None = None,
        notices: Notices = unheard,
        timeout: tuple[float, float] = (3.05, 20.0),
    ) -> None:
        """
        Raise `ConfigError` for a kind, credential or repository that cannot be used; nothing is called yet.

        *credential* is a token or an installation; *kinds* None means the core ones. Without *repositories* and
        *organizations* it is all that the credential is given. *timeout* holds the seconds to connect and those until
        an answer is complete.
        """
        self.source = source
        self._rows = _rows(source, kinds)
        self.kinds: Mapping[str, Kind] = {name: row.kind for name, row in self._rows.items()}
        self._secrets, self._validators, self._api_version = tuple(webhook_secrets), validators, api_version
        # At DEBUG the SDK logs every URL.
        logging.getLogger("github").setLevel(logging.WARNING)
        try:
            self._calls = Calls(
                credential,
                api_version=api_version,
                api_base=api_base,
                timeout=timeout,
                budget=budget,
                clock=clock,
                notices=notices,
            )
            self._lists = Lists(self._calls)
            self._places = Places(self._calls, self._lists, repositories=repositories, organizations=organizations)
        except ConfigError as fault:
            raise ConfigError(f"sources[{source}].{fault}") from None
        self._probing = Probing(self._calls, self._places, self._rows)
        self._subscriptions = Subscriptions(self._calls, self._places, rows=self._rows)
        self._feeds: Mapping[Walk, Callable[[Row, str, datetime], Iterator[Page]]] = {
            Walk.SINCE: self._since,
            Walk.NEWEST: self._latest,
            Walk.WHOLE: self._marked,
            Walk.ACCOUNTS: self._repositories_since,
            Walk.CREATED: self._created,
            Walk.PARENTS: self._under_changed,
            Walk.NONE: lambda *_: iter(()),
        }

    def __repr__(self) -> str:
        """Name the source, and nothing secret."""
        return f"GitHub({self.source!r})"

    def close(self) -> None:
        """Close the connections at rest; a later call opens new ones."""
        self._calls.close()

    def scopes(self, kind: str | None = None) -> tuple[str, ...]:
        """
        Return the scopes to sweep, of *kind* or of all: no scope for repositories, their numbers for what is in them.

        Those of teams and members are the numbers of organizations. A repository or organization that is not seen is
        its name, at the end: to list that raises `AccessLost`.
        """
        homes = {self._row(each).home for each in ([kind] if kind else self.kinds)}
        looks: Mapping[Home, Callable[[], tuple[tuple[str, ...], tuple[str, ...]]]] = {
            Home.NOWHERE: lambda: (("",), ()),
            Home.REPOSITORY: self._places.numbers,
            Home.ORGANIZATION: self._places.accounts,
        }
        found = [look() for home, look in looks.items() if home in homes]
        seen, unseen = ([each for pair in found for each in pair[part]] for part in (0, 1))
        return tuple(dict.fromkeys([*seen, *unseen]))

    def probe(self) -> Probed | None:
        """Return what moved lately in which repository; None where there are so few that to list each is as cheap."""
        return self._probing.probe()

    def shape(self, kind: str) -> Mapping[str, object]:
        """Return what the form of bodies depends on."""
        row = KINDS[kind]
        told = {"adapter": _VERSION, "api_version": self._api_version, "without": sorted(SECRETS)}
        return told | ({"only": list(row.only)} if row.only else {})

    def read(self, delivery: Delivery, *, secrets: Sequence[str] | None = None) -> tuple[Notification, ...]:
        """Verify and parse; raises `SignatureInvalid` or `DeliveryMalformed`, whatever the bytes."""
        secrets = self._secrets if secrets is None else secrets
        headers = delivery.headers
        secret = vouched(delivery.body, headers.get("x-hub-signature-256", ""), secrets)
        whole, changed = _payload(delivery.body, headers.get("content-type", ""))
        payload: Body = content.without(whole, SECRETS)
        event, action = _word(headers, "x-github-event"), payload.get("action")
        if event in _PLACES_MOVE:
            self._places.look_again()
        return (
            Notification(
                source=self.source,
                event_id=_event_id(headers),
                event_type=f"{event}.{action}" if isinstance(action, str) and action else event,
                occurred_at=events.occurred_at(event, payload),
                payload=payload,
                raw=delivery.body if changed and payload is whole else None,
                named=events.named(event, payload, self._rows, self.source, self._places.is_ours),
                secret=secret,
                access=events.access(event, payload) if self._places.is_addressed(payload) else None,
            ),
        )

    def addressed(self, told: Notification, delivery: Delivery) -> bool:  # noqa: ARG002 - the payload says it all
        """Say whether *told* is of our installation, and of a repository or account that is ours."""
        return self._places.is_addressed(told.payload)

    def fetch(self, ref: ObjectRef, *, locator: Body | None = None) -> Snapshot:
        """
        Return the object as it is now, or its absence with the proof.

        *locator* may hold a label's `name`, a member's `login`, or the number of the `pull_request` or `deployment`
        that it is under; without it, it is looked for.
        """
        row, told = self._row(ref.kind), locator or {}
        if row.called is not None:
            name = told.get(row.called[0])
            return self._label(row, ref, name) if row.home is Home.REPOSITORY else self._member(row, ref, name)
        if row.parent is None:
            return self._followed(row, ref, row.path_of(ref))
        number = told.get(row.parent.kind)
        if not isinstance(number, str):
            return self._sought(row, ref)
        return self._followed(row, ref, row.path_of(ref, **{row.parent.kind: number}))

    def _followed(self, row: Row, ref: ObjectRef, target: str) -> Snapshot:
        """Return what is at *target*, or where that leads; raises where it leads on and on."""
        for _ in range(HOPS):
            answer = self._calls.ask(row.kind.fetch, target)
            if answer.status not in REDIRECTS:
                return self._snapshot(row, ref, answer)
            target = self._calls.led_to(row.kind.fetch, answer)
            if not self._leads_to(ref, target):
                return self._moved(row, ref, answer, target)
        raise SourceUnavailable(f"{ref}: led on and on")

    def changed_since(self, kind: str, scope: str, since: datetime) -> Iterator[Page]:
        """
        Yield what changed since *since*, inclusive; of kinds that are listed whole, everything.

        A page that is as a validator marks it shows nothing, and its mark again. Nothing of a kind that lives elsewhere
        is in *scope*.
        """
        row = self._row(kind)
        if _is_home(row, scope):
            yield from self._feeds[row.walk](row, scope, since.astimezone(UTC))

    def crawl(self, kind: str, scope: str) -> Iterator[Page]:
        """Yield every object of *kind* in *scope*; raises rather than stopping early, and spares no page."""
        row = self._row(kind)
        walks: Mapping[Walk, Callable[[], Iterator[Page]]] = {
            Walk.SINCE: lambda: self._since(row, scope, None),
            Walk.ACCOUNTS: lambda: self._repositories(row),
            Walk.PARENTS: lambda: self._under(row, scope, self._parents(row, scope)),
            Walk.NONE: lambda: iter(()),
        }
        if _is_home(row, scope):
            yield from walks.get(row.walk, lambda: self._all(row, scope))()

    def count(self, kind: str, scope: str) -> Count | None:
        """Return how many a crawl of *kind* in *scope* would show; lists of issues count pull requests, too."""
        row = self._row(kind)
        if not _is_home(row, scope) or row.walk in {Walk.PARENTS, Walk.NONE}:
            return None
        if row.walk is Walk.ACCOUNTS:
            shown = [counted(self._calls, shelf) for shelf in self._places.shelves()]
            known = [each.objects for each in shown if each is not None]
            return Count(sum(known) + len(self._places.named()[0]), exact=len(known) == len(shown))
        found = counted(self._calls, _shelf(row, scope, row.crawl))
        return None if found is None else Count(found.objects, exact=kind != "issue")

    def identity(self, scope: str = "") -> str:
        """
        Return the id of the user or installation behind the credential, or the number of a readable scope.

        Raises `AccessLost` where the credential, or the repository or organization, is not seen.
        """
        if not scope:
            return self._places.account()
        accounts = {row.home for row in self._rows.values()} & {Home.ORGANIZATION} and self._places.accounts()[0]
        if scope in accounts:
            return self._places.number_at(f"/organizations/{scope}", "GET /organizations/{id}")
        return self._places.number_at(f"/repositories/{quote(scope, safe='')}", _ONE_REPOSITORY)

    def shown(self, payload: Body, ref: ObjectRef) -> Body | None:
        """Return a label as its own event shows it; of other kinds a payload's form need not be that of a fetch."""
        label = payload.get("label")
        is_its_own = ref.kind == "label" and not {"issue", "pull_request", "discussion"} & payload.keys()
        if not is_its_own or not isinstance(label, dict) or payload.get("action") == "deleted":
            return None
        home = events.number_of(content.find(payload, "/repository/id"))
        return label if (events.number_of(label.get("id")), home) == (ref.id, ref.scope) else None

    def subscriptions(self, urls: Sequence[str], *, held: Collection[str] = ()) -> Sequence[Subscription]:  # noqa: ARG002 - secrets are ours
        """Return the webhook that points at us for each repository or organization, or that of the app."""
        return self._subscriptions.every(urls)

    def mend_subscription(self, broken: Subscription, url: str, *, secret: str | None) -> Mended:
        """Make a webhook, or have it send what is missing; that of an app can only be changed in its settings."""
        return self._subscriptions.mend(broken, url, secret)

    def failed_deliveries(self, urls: Sequence[str], since: datetime) -> Iterator[Undelivered]:
        """Yield what the webhooks that point at us failed to deliver and have not delivered since."""
        return self._subscriptions.failed(urls, since.astimezone(UTC))

    def redeliver(self, undelivered: Undelivered) -> None:
        """Have GitHub send a delivery again, under the same GUID."""
        self._subscriptions.redeliver(undelivered)

    def spoken(self, payload: Body) -> str | None:  # noqa: ARG002 - payloads have one form, whatever the version
        """Return None."""
        return None

    def _row(self, kind: str) -> Row:
        if kind not in self._rows:
            raise SourceRefused(f"{self.source} does not mirror {kind}")
        return self._rows[kind]

    # --- one object ---

    def _snapshot(self, row: Row, ref: ObjectRef, answer: Answer) -> Snapshot:
        """Return *ref* as the answer to its fetch shows it."""
        observed_at = self._calls.observed_at(answer)
        if answer.status == 404:
            return _absent(ref, observed_at, Proof.NOT_FOUND, "404 Not Found")
        if answer.status == 410 and _DELETED.search(message_of(answer)):
            return _absent(ref, observed_at, Proof.STATED, f"410 {message_of(answer)}")
        if answer.status != 200:
            raise SourceRefused(self._calls.said(row.kind.fetch, answer))
        body = self._calls.body(row.kind.fetch, answer)
        home = events.number_of(content.find(body, "/base/repo/id"))
        if events.id_of(row, body) != ref.id or home not in {None, ref.scope}:
            raise SourceRefused(f"{ref}: the answer shows another object")
        if row.kind.name == "issue" and events.is_pull_request(body):
            return _absent(ref, observed_at, Proof.STATED, "200, a pull request")
        return _present(row, ref, body, observed_at)

    def _leads_to(self, ref: ObjectRef, target: str) -> bool:
        """Say whether *target* is another address of *ref*: the same repository and number."""
        _, *steps = (unquote(step) for step in target.partition("?")[0].split("/"))
        if steps[:1] == ["repos"]:
            number = self._places.number_at("/".join(["", *steps[:3]]), "GET /repos/{owner}/{repo}")
            steps = ["repositories", number, *steps[3:]]
        if not ref.scope:
            return steps == ["repositories", ref.id]
        return steps[:2] == ["repositories", ref.scope] and steps[-1] == ref.id

    def _moved(self, row: Row, ref: ObjectRef, answer: Answer, target: str) -> Snapshot:
        """Return the absence of what is elsewhere by now; raises where only a detour was shown."""
        if answer.status not in _PERMANENT or not ref.scope:
            raise SourceUnavailable(f"{row.kind.fetch}: {answer.status}: led to another object")
        because = f"{answer.status} moved to {target}"
        return _absent(ref, self._calls.observed_at(answer), Proof.STATED, because)

    def _label(self, row: Row, ref: ObjectRef, name: JSON) -> Snapshot:
        """Return the label of this id: by its name as far as we know it, else from the list of all."""
        if isinstance(name, str) and name:
            answer = self._calls.ask(row.kind.fetch, row.path_of(ref, name=name))
            body = self._calls.body(row.kind.fetch, answer) if answer.status == 200 else {}
            if events.number_of(body.get("id")) == ref.id:
                return _present(row, ref, body, self._calls.observed_at(answer))
        observed_at = self._calls.now()
        for listed in self._lists.settled(_shelf(row, ref.scope, row.crawl)):
            observed_at = listed.observed_at
            for body in listed.objects:
                if events.number_of(body.get("id")) == ref.id:
                    return _present(row, ref, body, observed_at)
        return _absent(ref, observed_at, Proof.NOT_FOUND, "not in the list of labels")

    def _member(self, row: Row, ref: ObjectRef, login: JSON) -> Snapshot:
        """Return the membership of the person of this number, by the login that is known or else looked up."""
        if isinstance(login, str) and login:
            answer = self._calls.ask(row.kind.fetch, row.path_of(ref, login=login))
            body = self._calls.body(row.kind.fetch, answer) if answer.status == 200 else {}
            if events.id_of(row, body) == ref.id:
                return _present(row, ref, body, self._calls.observed_at(answer))
        person = self._calls.ask(_PERSON, f"/user/{quote(ref.id, safe='')}")
        if person.status != 200:
            return _absent(ref, self._calls.observed_at(person), Proof.NOT_FOUND, f"{person.status} on the person")
        called = self._calls.body(_PERSON, person).get("login")
        return self._followed(row, ref, row.path_of(ref, login=str(called)))

    def _sought(self, row: Row, ref: ObjectRef) -> Snapshot:
        """Return an object of which nobody knows what it is under: all of them are looked through."""
        for page in self._under(row, ref.scope, self._parents(row, ref.scope)):
            for each in page.snapshots:
                if each.ref == ref:
                    return each
        return _absent(ref, self._calls.now(), Proof.NOT_FOUND, f"in no {row.parent.kind}" if row.parent else "")

    # --- lists ---

    def _page(
        self,
        row: Row,
        scope: str,
        objects: Iterable[Body],
        observed_at: datetime,
        marks: Mapping[str, Body] | None = None,
    ) -> Page:
        """Return what a page of *row*'s list shows, whole or as hints."""
        snapshots: list[Snapshot] = []
        hints: list[Hint] = []
        for body in objects:
            if row.kind.name == "issue" and events.is_pull_request(body):
                continue
            ref = self._ref(row, scope, body)
            if row.kind.list is not Listing.HINT and not _is_part(row, body):
                snapshots.append(_present(row, ref, body, observed_at))
            else:
                hints.append(_hint(row, ref, body))
        return Page(tuple(snapshots), tuple(hints), marks or {})

    def _ref(self, row: Row, scope: str, body: Body) -> ObjectRef:
        id_ = events.id_of(row, body, listed=True)
        if id_ is None:
            raise SourceUnavailable(f"{self.source}: the list of {row.kind.name} shows something else")
        return ObjectRef(self.source, scope, row.kind.name, id_)

    def _all(self, row: Row, scope: str) -> Iterator[Page]:
        for listed in self._lists.settled(_shelf(row, scope, row.crawl)):
            yield self._page(row, scope, listed.objects, listed.observed_at)

    def _created(self, row: Row, scope: str, since: datetime) -> Iterator[Page]:
        until = self._calls.now() + _SKEW
        for listed in self._lists.created(_shelf(row, scope, row.changes), since, until):
            yield self._page(row, scope, listed.objects, listed.observed_at)

    def _since(self, row: Row, scope: str, since: datetime | None) -> Iterator[Page]:
        shelf = _shelf(row, scope, row.changes)
        since = since if since is not None and since > _BEFORE_GITHUB else None
        try:
            for listed in self._lists.since(shelf, since, lambda body: events.stamp_of(row, body)):
                yield self._page(row, scope, listed.objects, listed.observed_at)
        except Gone as gone:
            self._believe(gone, row, scope)

    def _believe(self, gone: Gone, row: Row, scope: str) -> None:
        """Take a list for empty where the repository says that it has no issues; else raise what was answered."""
        answer = self._calls.ask(_ONE_REPOSITORY, f"/repositories/{quote(scope, safe='')}")
        body = self._calls.body(_ONE_REPOSITORY, answer) if answer.status == 200 else {}
        if row.kind.name not in _SWITCHED_OFF_WITH_ISSUES or body.get("has_issues") is not False:
            raise gone

    def _latest(self, row: Row, scope: str, since: datetime) -> Iterator[Page]:
        return self._latest_on(_shelf(row, scope, row.changes), row, scope, since)

    def _latest_on(self, shelf: Shelf, row: Row, scope: str, since: datetime) -> Iterator[Page]:
        known = self._validators(row.kind.name, scope)
        for page in self._lists.latest(shelf, since, lambda body: events.stamp_of(row, body), known):
            yield self._page(row, scope, page.listed.objects, page.listed.observed_at, {page.at: page.mark})

    def _marked(self, row: Row, scope: str, _since: datetime) -> Iterator[Page]:
        known = self._validators(row.kind.name, scope)
        for page in self._lists.marked(_shelf(row, scope, row.changes), known):
            yield self._page(row, scope, page.listed.objects, page.listed.observed_at, {page.at: page.mark})

    # --- what is listed under something else ---

    def _parents(self, row: Row, scope: str) -> Iterator[Listed]:
        return self._lists.settled(_shelf_of_parents(row, scope, latest=False))

    def _under_changed(self, row: Row, scope: str, since: datetime) -> Iterator[Page]:
        shelf = _shelf_of_parents(row, scope, latest=True)
        changed = self._lists.latest(shelf, since, lambda body: instant(body.get("updated_at")), {})
        yield from self._under(row, scope, (page.listed for page in changed))

    def _under(self, row: Row, scope: str, parents: Iterable[Listed]) -> Iterator[Page]:
        """Yield the lists of all these."""
        if row.parent is None:
            return
        for page in parents:
            for body in page.objects:
                number = events.number_of(content.find(body, row.parent.key)) or ""
                shelf = Shelf(f"GET {row.lists}", row.list_of(scope, **{row.parent.kind: number}), {})
                for listed in self._lists.settled(shelf):
                    yield self._page(row, scope, listed.objects, listed.observed_at)

    # --- repositories, which no one list shows ---

    def _repositories(self, row: Row) -> Iterator[Page]:
        for shelf in self._places.shelves():
            for listed in self._lists.settled(shelf):
                yield self._page(row, "", listed.objects, listed.observed_at)
        numbers, unseen = self._places.named()
        yield Page(hints=tuple(Hint(self._repository(number)) for number in numbers))
        _complain(unseen)

    def _repositories_since(self, row: Row, scope: str, since: datetime) -> Iterator[Page]:
        for shelf in self._places.shelves(latest=True):
            if "sort" in shelf.parameters:
                yield from self._latest_on(shelf, row, scope, since)
            else:
                for listed in self._lists.settled(shelf):
                    changed = (body for body in listed.objects if _is_since(events.stamp_of(row, body), since))
                    yield self._page(row, scope, changed, listed.observed_at)
        numbers, unseen = self._places.named()
        known = self._validators(row.kind.name, scope)
        stamps = self._stamps(numbers)
        for number in numbers:
            if number not in stamps:
                yield self._repository_since(row, self._repository(number), since, known)
        changed_lately = [(number, stamp) for number, stamp in stamps.items() if stamp >= since]
        yield Page(hints=tuple(Hint(self._repository(each), changed_at=at, stamp=at) for each, at in changed_lately))
        _complain(unseen)

    def _stamps(self, numbers: Sequence[str]) -> dict[str, datetime]:
        """Return the stamps of many repositories, as far as a query shows them."""
        if len(numbers) <= FEW:
            return {}
        try:
            newest = self._probing.newest(numbers)
        except (AccessLost, SourceRefused):
            return {}
        return {number: stamp for number, seen in newest.items() if (stamp := seen.get("updated")) is not None}

    def _repository_since(self, row: Row, ref: ObjectRef, since: datetime, known: Mapping[str, Body]) -> Page:
        """Return a hint of a repository that changed; one that is as its mark says costs nothing."""
        at = row.path_of(ref)
        mark = counting(known, since).get(at, {})
        answer = self._calls.ask(row.kind.fetch, at, etag=mark.get("etag", ""))
        if answer.status == 304:
            return Page(validators={at: mark})
        if answer.status != 200:
            return Page(hints=(Hint(ref),))  # a read tells what became of it
        hint = _hint(row, ref, self._calls.body(row.kind.fetch, answer))
        mark = {"etag": answer.headers.get("etag", ""), "since": iso(since)}
        return Page(hints=(hint,) if _is_since(hint.stamp, since) else (), validators={at: mark})

    def _repository(self, number: str) -> ObjectRef:
        return ObjectRef(self.source, "", _REPOSITORY, number)


def _rows(source: str, kinds: Collection[str] | None) -> dict[str, Row]:
    wanted = [name for name, row in KINDS.items() if row.kind.core] if kinds is None else kinds
    unknown = sorted(set(wanted) - set(KINDS))
    if unknown:
        raise ConfigError(f"sources[{source}].kinds: no such kind: {', '.join(unknown)}; known: {', '.join(KINDS)}")
    return {name: row for name, row in KINDS.items() if name in wanted}


def _payload(raw: bytes, content_type: str) -> tuple[Body, bool]:
    """Return what a delivery says, and whether it had to be cleaned."""
    try:
        text: bytes | str = raw
        if content_type.partition(";")[0].strip().lower() == _FORM:
            text = dict(parse_qsl(raw.decode("ascii"), errors="strict", max_num_fields=10))["payload"]
        payload, changed = content.clean(content.parse(text))
    except (ValueError, KeyError) as error:
        raise DeliveryMalformed("the body is not JSON, and no form with a payload") from error
    if not isinstance(payload, dict):
        raise DeliveryMalformed("the body is not a JSON object")
    return payload, changed


def _word(headers: Mapping[str, str], name: str) -> str:
    word = headers.get(name, "")
    if not _WORD.fullmatch(word):
        raise DeliveryMalformed(f"no {name} header")
    return word


def _event_id(headers: Mapping[str, str]) -> str:
    guid = _word(headers, "x-github-delivery")
    return f"{guid}/{_word(headers, 'x-github-hook-id')}" if headers.get("x-github-hook-id") else guid


def _shelf(row: Row, scope: str, parameters: Mapping[str, str]) -> Shelf:
    return Shelf(f"GET {row.lists}", row.list_of(scope), parameters)


def _shelf_of_parents(row: Row, scope: str, *, latest: bool) -> Shelf:
    parent = row.parent
    if parent is None:
        raise SourceRefused(f"{row.kind.name} is under nothing")
    target = parent.lists.format(scope=quote(scope, safe=""))
    return Shelf(f"GET {parent.lists}", target, parent.changes if latest else parent.crawl)


def _is_home(row: Row, scope: str) -> bool:
    """Say whether objects of a kind live in *scope*: repositories in none, all others in one."""
    return (row.home is Home.NOWHERE) is (not scope)


def _present(row: Row, ref: ObjectRef, body: Body, observed_at: datetime) -> Snapshot:
    shown: Body = content.without(body, SECRETS)
    shown = _only(shown, row.only) if row.only else shown
    return Snapshot(ref, shown, events.stamp_of(row, shown), observed_at, locator=events.locator_of(row, shown))


def _only(body: Body, pointers: Sequence[str]) -> Body:
    """Return those parts of a body that are one or two steps down."""
    kept: Body = {}
    for pointer in pointers:
        _, *above, name = pointer.split("/")
        value = content.find(body, pointer)
        if value is not None:
            (kept.setdefault(above[0], {}) if above else kept)[name] = value
    return kept


def _absent(ref: ObjectRef, observed_at: datetime, proof: Proof, because: str) -> Snapshot:
    return Snapshot(ref, None, None, observed_at, proof, because)


def _hint(row: Row, ref: ObjectRef, body: Body) -> Hint:
    stamp = events.stamp_of(row, body)
    return Hint(ref, changed_at=stamp, stamp=stamp, locator=events.locator_of(row, body, listed=True))


def _is_since(stamp: datetime | None, since: datetime) -> bool:
    """Say whether what has this stamp may have changed since."""
    return stamp is None or stamp >= since


def _is_part(row: Row, body: Body) -> bool:
    """Say whether a listed object lacks what its fetch shows."""
    return bool(row.part) and body.get("state") == "closed" and content.find(body, row.part) is None


def _complain(unseen: Sequence[str]) -> None:
    if unseen:
        raise AccessLost(f"{', '.join(unseen)}: not seen with this credential")
