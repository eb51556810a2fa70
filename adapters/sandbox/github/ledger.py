"""The objects at GitHub and the webhooks that tell of their changes."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from adapters.sandbox.faults import Refused
from adapters.sandbox.github.bodies import STABLE_VERSION, TEXT, Views, full_name, last_facts, number_of, seconds
from adapters.sandbox.github.facts import Draft
from adapters.sandbox.github.kinds import KINDS, SHAPES
from adapters.sandbox.github.names import Names
from adapters.sandbox.github.telling import Change, Teller
from adapters.sandbox.operations import Deed, Operation, Stamp
from adapters.sandbox.world import Timeline

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from adapters.sandbox.github.bodies import Counts
    from adapters.sandbox.github.hooks import Hooks
    from adapters.sandbox.github.kinds import Kind
    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.world import JSON, Body, World

Place: TypeAlias = tuple[str, str]
"""The scope and the number of an issue."""

BACKWARDS = 3600
"""Seconds by which a stamp that goes back goes back."""

FIRST_ID = 3_000_000_000
"""GitHub's ids have outgrown 32 bits."""

SHIFTS = ("touch", "create", "delete")
"""What may happen between two pages."""

_FIXED = frozenset({"id", "node_id", "number", "url", "html_url", "full_name", "comments", "repository_url"})
_TIMES = {
    "created_at": "_created",
    "updated_at": "_updated",
    "pushed_at": "_pushed",
    "closed_at": "_closed",
    "merged_at": "_merged",
    "published_at": "_published",
}
_PEOPLE = {"user": "_user", "author": "_user", "creator": "_user", "owner": "_owner", "merged_by": "_merged_by"}
_FIRM = (str, bool, int, list)
"""What is of one of these types stays of that type."""

_MAY_LACK = frozenset({"conclusion", "_milestone", "_closed", "_merged", "_merged_by", "_published"})
_SHA = {"head_sha": "_head"}


class Ledger:
    """
    Carries out what happens at GitHub: each change is a new version and, mostly, a webhook.

    Attributes:
        user: Login of whoever does all this.
        names: Of the repositories.
        moved: Issues that were transferred, and where they are now.
        shifts: What may happen between two pages.
    """

    def __init__(self, machinery: Machinery, hooks: Hooks, *, user: str, base: Callable[[], str]) -> None:
        self._machinery = machinery
        self._world: World = machinery.world
        self._hooks = hooks
        self.user = user
        self._base = base
        self._counts: defaultdict[str, Counts] = defaultdict(Counter)
        self._teller = Teller(machinery.world, user=user, views=self.views)
        self.names = Names()
        self.moved: dict[Place, Place] = {}
        self.shifts: Sequence[str] = SHIFTS

    def operate(self, operation: Operation) -> Body:
        """Do *operation* and return `kind`, `id`, `scope`, `version`, `events`, and what else it changed as `also`."""
        kind = KINDS.get(operation.kind)
        if kind is None:
            raise Refused(f"unknown kind {operation.kind}; there are {', '.join(KINDS)}")
        deeds: Mapping[Deed, Callable[[Kind, Operation], Body]] = {
            Deed.CREATE: self._create,
            Deed.CHANGE: self._change,
            Deed.DELETE: self._delete,
            Deed.RECREATE: self._recreate,
        }
        fixed = sorted(_FIXED & operation.body.keys())
        if fixed:
            raise Refused(f"body cannot set {', '.join(fixed)}")
        with self._world.lock:
            return deeds[operation.deed](kind, self._placed(operation))

    def transfer(self, scope: str, id_: str, *, to: str) -> Body:
        """Move an issue to another repository, where it gets another number; its comments go with it."""
        with self._world.lock:
            self._repository(to)
            leaving = Operation(deed=Deed.DELETE, kind="issue", id=id_, scope=scope)
            timeline = self._alive(leaving)
            facts = timeline.latest.body or {}
            number = self._number("issue", to)
            arriving = Timeline(to, "issue", str(number))
            told = self._teller.leaving(timeline)
            fresh: Body = {"_number": number, "_labels": [], "_milestone": None, "_updated": self._moment(leaving)}
            self._put(arriving, {**facts, **fresh}, created=facts["_created"])
            self._put(timeline, None)
            self.moved[scope, id_] = (to, str(number))
            for comment in list(self._comments(scope, number=facts["_number"])):
                self._carry(comment, to=to, number=number)
            left, come = self._teller.transferred(told, arriving)
            self._hooks.send(left)
            self._hooks.send(come)
            return {
                **self._answer(timeline, events=[left.guid]),
                "also": [self._answer(arriving, events=[come.guid])],
            }

    def truth(self, *, kind: str | None, scope: str | None) -> list[Body]:
        """Return each object that ever was, whole and as it is now; what was in a repository goes with it."""
        with self._world.lock:
            views = self.views()
            wanted = [
                each
                for each in self._world.everything()
                if each.kind in KINDS and kind in {None, each.kind} and scope in {None, each.scope}
            ]
            return [self._true(views, each) for each in wanted]

    def shift(self, kind: str, scope: str, shown: Sequence[Timeline]) -> None:
        """Change something that moves the pages of a list of *kind* that has just shown these objects."""
        if not self.shifts:
            return
        how = self.shifts[self._machinery.mischief.pick("shift", len(self.shifts))]
        victim = shown[self._machinery.mischief.pick("victim", len(shown))]
        deletes = how == "delete" and victim.kind != "repository" and not KINDS[victim.kind].stays
        deed = Deed.DELETE if deletes else Deed.CHANGE
        make = Operation(deed=Deed.CREATE, kind=kind, scope=scope)
        try:
            self.operate(make if how == "create" else Operation(deed=deed, kind=victim.kind, id=victim.id, scope=scope))
        except Refused:  # a stale page shows what is gone by now
            self.operate(make)

    def guid(self) -> str:
        """Return the GUID of a new event."""
        return self._teller.guid()

    def views(self, *, base: str | None = None, at: float | None = None, version: str = STABLE_VERSION) -> Views:
        """Return what shows objects: under our own address, as they are now, unless said otherwise."""
        return Views(
            self._world,
            base=self._base() if base is None else base,
            user=self.user,
            counts=self._counts,
            more=SHAPES,
            at=at,
            version=version,
        )

    def ensure(self, name: str) -> str:
        """Return the number of the repository called *name*, made on the spot if there is none."""
        number = self.names.has(name)
        if number is not None:
            return number
        owner, _, short = name.partition("/")
        body: Body = {"owner": owner, "name": short}
        made = self.operate(Operation(deed=Deed.CREATE, kind="repository", body=body, announce=False))
        return str(made["id"])

    def _placed(self, operation: Operation) -> Operation:
        """Return *operation* with a scope; without one it goes to the oldest repository, or the first of all."""
        home = KINDS[operation.kind].home
        if not home:
            if operation.scope:
                raise Refused(f"a {operation.kind} has no scope")
            return operation
        if home == "organization":
            return replace(operation, scope=self._organization(operation.scope))
        if operation.scope:
            self._repository(operation.scope)
            return operation
        standing = [timeline.id for _, timeline, _ in self._world.shelf("", "repository").newest(None)]
        return replace(operation, scope=standing[-1] if standing else self.ensure("acme/standin"))

    def _organization(self, scope: str) -> str:
        """Return the number of an organization: the one that is wanted, or the first there is."""
        views = self.views()
        there = [str(number_of(login)) for login in sorted(views.owners) if views.is_organization(login)]
        if not there and not scope:
            self.ensure("acme/standin")
            return self._organization(scope)
        if scope and scope not in there:
            raise Refused(f"there is no organization {scope!r}")
        return scope or there[0]

    def _repository(self, scope: str) -> Body:
        timeline = self._world.find("", "repository", scope)
        if timeline is None or timeline.latest.body is None:
            raise Refused(f"there is no repository {scope!r}")
        return timeline.latest.body

    def _true(self, views: Views, timeline: Timeline) -> Body:
        latest = timeline.latest
        home = self._world.find("", "repository", timeline.scope) if timeline.scope else None
        gone = latest.body is None or (home is not None and home.latest.body is None)
        return {
            "kind": timeline.kind,
            "id": timeline.id,
            "scope": timeline.scope,
            "version": latest.number,
            "deleted": gone,
            "body": None if gone or latest.body is None else views.alone(timeline, latest.body),
        }

    def _create(self, kind: Kind, operation: Operation) -> Body:
        scope, turn = operation.scope, self._world.turn(f"draft {operation.kind}")
        number = self._number(operation.kind, scope, wanted=operation.id) if kind.numbered else 0
        id_ = str(number) if kind.numbered else self._own_id(operation)
        moment = self._moment(operation)
        related = self._related(operation, kind.belongs) if kind.belongs else 0
        facts = kind.make(Draft(moment, turn, number, self.user, related))
        if kind.numbered:
            facts["_id"] = FIRST_ID + self._world.turn("id")
        facts = self._followed(operation, {}, facts | self._said(operation, facts))
        if kind.number is not None:
            id_ = self._free(operation, kind.number(facts))
        timeline = Timeline(scope, operation.kind, id_)
        if operation.kind == "repository":
            self._name(None, facts, id_)
        if operation.kind == "label":
            self._check_label(timeline, facts)
        answer = self._write(kind, operation, timeline, facts, created=facts["_created"])
        if operation.kind == "issue_comment":
            answer["also"] = self._commented(operation, facts["_issue"], 1)
        if kind.beside:
            answer["also"] = self._touched(operation, kind.belongs, facts["_parent"])
        return answer

    def _change(self, kind: Kind, operation: Operation) -> Body:
        timeline = self._alive(operation)
        before = timeline.latest.body or {}
        said = self._said(operation, before) if operation.body else kind.edit(before)
        facts = self._followed(operation, before, {**before, **said})
        if kind.stamped and "updated_at" not in operation.body and operation.stamp is not Stamp.KEEP:
            back = operation.stamp is Stamp.BACK
            facts["_updated"] = before["_updated"] - BACKWARDS if back else self._moment(operation)
        if operation.kind == "repository":
            self._name(before, facts, timeline.id)
        if operation.kind == "label":
            self._check_label(timeline, facts)
        answer = self._write(kind, operation, timeline, facts)
        answer["also"] = list(self._shown_in(operation, timeline))
        return answer

    def _delete(self, kind: Kind, operation: Operation) -> Body:
        if kind.stays:
            raise Refused(kind.stays)
        timeline = self._alive(operation)
        before = timeline.latest.body or {}
        if operation.kind == "repository":
            self.names.drop(full_name(before))
        answer = self._write(kind, operation, timeline, None)
        also = list(self._shown_in(operation, timeline))
        if operation.kind == "issue":
            also += [self._silently_gone(each) for each in list(self._comments(timeline.scope, before["_number"]))]
        if operation.kind == "issue_comment":
            also += self._commented(operation, before["_issue"], -1)
        for each in list(self._under(timeline, number=timeline.id)):
            also.append(self._silently_gone(each))
        answer["also"] = also
        return answer

    def _recreate(self, kind: Kind, operation: Operation) -> Body:
        """Restore a deleted repository, as its owner can; nothing else comes back under its id."""
        timeline = self._found(operation)
        if operation.kind in {"member", "branch"}:
            return self._again(kind, operation, timeline)
        if operation.kind != "repository":
            raise Refused(f"GitHub gives the id of a deleted {operation.kind} to nobody; create another")
        if timeline.latest.body is not None:
            raise Refused(f"{operation.kind} {operation.id} is still there; only what was deleted comes back")
        last = last_facts(timeline)
        moment = self._moment(operation)
        facts = {**last, **self._said(operation, last), "_updated": moment}
        self._name(None, facts, timeline.id)
        return self._write(kind, operation, timeline, facts, created=last["_created"])

    def _again(self, kind: Kind, operation: Operation, timeline: Timeline) -> Body:
        """Let somebody come back, or make a branch of the same name."""
        if timeline.latest.body is not None:
            raise Refused(f"{operation.kind} {operation.id} is still there; only what was deleted comes back")
        moment = self._moment(operation)
        facts = {**last_facts(timeline), "_created": moment, "_updated": moment}
        return self._write(kind, operation, timeline, facts, created=moment)

    def _write(
        self,
        kind: Kind,
        operation: Operation,
        timeline: Timeline,
        facts: Body | None,
        *,
        created: int | None = None,
    ) -> Body:
        """Make *facts* the object's next version and tell of it."""
        before = timeline.latest.body if timeline.versions else None
        self._put(timeline, facts, created=created)
        change = Change(kind, timeline, before, timeline.latest.body)
        events: list[str] = []
        if operation.announce:
            told = [self._teller.event(change, each) for each in kind.told(before, facts)]
            events = [event.guid for event in told]
            for event in told if operation.deliver else ():
                self._hooks.send(event)
        return self._answer(timeline, events=events)

    def _put(self, timeline: Timeline, facts: Body | None, *, created: int | None = None) -> None:
        number = timeline.latest.number + 1 if timeline.versions else 1
        body = None if facts is None else {**facts, "_version": number}
        if timeline.kind in {"issue", "pull_request"}:
            self._counted(timeline, body)
        self._world.put(timeline, body, at=self._machinery.clock.ticks(), created=created)

    def _counted(self, timeline: Timeline, after: Body | None) -> None:
        before = timeline.latest.body if timeline.versions else None
        for facts, step in ((before, -1), (after, 1)):
            if facts is not None:
                self._counts[timeline.scope][facts["state"], facts["_milestone"]] += step

    def _answer(self, timeline: Timeline, *, events: list[str]) -> Body:
        latest = timeline.latest
        return {
            "kind": timeline.kind,
            "id": timeline.id,
            "scope": timeline.scope,
            "version": latest.number,
            "deleted": latest.body is None,
            "events": events,
        }

    def _number(self, kind: str, scope: str, *, wanted: str = "") -> int:
        """Return the next number in a repository, or the one that is wanted: issues and pull requests share theirs."""
        sharing = [name for name, each in KINDS.items() if each.numbered == KINDS[kind].numbered]

        def taken(number: str) -> bool:
            return any(self._world.find(scope, each, number) is not None for each in sharing)

        if wanted:
            if not wanted.isdecimal() or wanted.startswith("0") or taken(wanted):
                raise Refused(f"{kind} {wanted!r} cannot be: its id is a number that nothing has had")
            return int(wanted)
        number = self._world.turn(f"number {scope} {KINDS[kind].numbered}")
        while taken(str(number)):
            number = self._world.turn(f"number {scope} {KINDS[kind].numbered}")
        return number

    def _own_id(self, operation: Operation) -> str:
        if not operation.id:
            return str(FIRST_ID + self._world.turn("id"))
        if not operation.id.isdecimal() or self._world.find(operation.scope, operation.kind, operation.id):
            raise Refused(f"{operation.kind} {operation.id!r} cannot be: its id is a number that nothing has had")
        return operation.id

    def _free(self, operation: Operation, id_: str) -> str:
        """Return the id that something's facts tell, unless something else has it."""
        if self._world.find(operation.scope, operation.kind, id_) is not None:
            raise Refused(f"there is, or was, a {operation.kind} {id_!r}; recreate it")
        return id_

    def _related(self, operation: Operation, above: str) -> int:
        """Return the number of what something new belongs to: as said, the newest, or one made for it."""
        said = operation.body.get(above)
        if said is not None:
            kinds = ("issue", "pull_request") if above == "issue" else (above,)
            if not any(self._world.find(operation.scope, kind, str(said)) for kind in kinds):
                raise Refused(f"there is no {above} {said!r} to belong to")
            return int(said)
        newest = next(self._world.shelf(operation.scope, above).newest(None), None)
        if newest is not None:
            return int(newest[1].id)
        made = replace(operation, kind=above, id="", body={}, announce=False)
        return int(self._create(KINDS[above], made)["id"])

    def _said(self, operation: Operation, held: Body) -> Body:
        """Return the facts that a body asks for, in the form in which they are *held*."""
        said: Body = {}
        readers: Mapping[str, tuple[str, Callable[[Operation, JSON], JSON]]] = {
            **{name: (fact, lambda _, value: _time(value)) for name, fact in _TIMES.items()},
            **{name: (fact, lambda _, value: _login(value)) for name, fact in _PEOPLE.items()},
            **{name: (fact, lambda _, value: value) for name, fact in _SHA.items()},
            "assignees": ("_assignees", lambda _, value: [_login(each) for each in value]),
            "labels": ("_labels", lambda of, value: [self._label(of, each) for each in value]),
            "milestone": ("_milestone", self._milestone),
            "issue": ("_issue", lambda _, value: int(value)),
            **{each.belongs: ("_parent", lambda _, value: int(value)) for each in KINDS.values() if each.beside},
            "workflow_run": ("_parent", lambda _, value: int(value)),
            "check_suite": ("_parent", lambda _, value: int(value)),
            "login": ("_login", lambda _, value: value),
            "head": ("_head", lambda _, value: value),
            "merged": ("_merged", lambda of, value: self._moment(of) if value else None),
        }
        for name, value in operation.body.items():
            fact, read = readers.get(name, (name, lambda _, value: value))
            try:
                said[fact] = read(operation, value)
            except (TypeError, ValueError, AttributeError) as error:
                raise Refused(f"{name} cannot be {value!r}: {error}") from None
        may_lack = {
            TEXT.get(operation.kind, ""),
            "conclusion",
            "_milestone",
            "_closed",
            "_merged",
            "_merged_by",
            "_published",
        }
        for name, value in said.items():
            lacks = value is None and name in may_lack
            if not lacks and type(held.get(name)) in _FIRM and type(value) is not type(held[name]):
                raise Refused(f"{name} cannot be {value!r}")
        shut = "_closed" in held and said.get("state", "open") not in {"open", "closed"}
        if shut or (operation.kind != "branch" and "/" in said.get("name", "")):
            raise Refused("a state is open or closed, and a name has no slash")
        return said

    def _label(self, operation: Operation, wanted: JSON) -> int:
        """Return the id of a label, by id or by name; like GitHub, make one that is not there."""
        name = wanted.get("name") if isinstance(wanted, dict) else wanted
        for _, timeline, facts in self._world.shelf(operation.scope, "label").newest(None):
            if timeline.id == str(name) or facts["name"] == name:
                return int(timeline.id)
        made = replace(operation, deed=Deed.CREATE, kind="label", id="", body={"name": str(name)})
        return int(self._create(KINDS["label"], made)["id"])

    def _milestone(self, operation: Operation, wanted: JSON) -> int | None:
        if wanted is None:
            return None
        timeline = self._world.find(operation.scope, "milestone", str(wanted))
        if timeline is None or timeline.latest.body is None:
            raise Refused(f"there is no milestone {wanted!r}")
        return int(wanted)

    def _followed(self, operation: Operation, before: Body, facts: Body) -> Body:
        """Return *facts* with what follows from them: who closed it and when, and what a merge does."""
        if operation.kind in {"issue", "pull_request"} and facts.get("_merged") and not before.get("_merged"):
            facts = {**facts, "state": "closed", "_merged_by": facts["_merged_by"] or self.user}
        if "_closed" not in facts or facts["state"] == before.get("state", "open"):
            return facts
        closed = facts["state"] == "closed"
        moment = facts["_closed"] if closed and facts["_closed"] != before.get("_closed") else self._moment(operation)
        follows: Body = {"_closed": moment if closed else None}
        if operation.kind == "issue":
            reason = operation.body.get("state_reason", "completed" if closed else "reopened")
            follows |= {"_closed_by": self.user if closed else None, "state_reason": reason}
        return {**facts, **follows}

    def _name(self, before: Body | None, after: Body, id_: str) -> None:
        name = full_name(after)
        if self.names.has(name) not in {None, id_}:
            raise Refused(f"another repository is called {name}")
        if before is None:
            self.names.give(name, id_)
        elif full_name(before) != name:
            self.names.change(full_name(before), name)

    def _check_label(self, timeline: Timeline, facts: Body) -> None:
        for _, other, each in self._world.shelf(timeline.scope, "label").newest(None):
            if other.id != timeline.id and each["name"].lower() == facts["name"].lower():
                raise Refused(f"another label is called {facts['name']!r}")

    def _found(self, operation: Operation) -> Timeline:
        timeline = self._world.find(operation.scope, operation.kind, operation.id)
        if timeline is None:
            raise Refused(f"there is no {operation.kind} {operation.id!r} in {operation.scope or 'GitHub'}")
        return timeline

    def _alive(self, operation: Operation) -> Timeline:
        timeline = self._found(operation)
        if timeline.latest.body is None:
            raise Refused(f"{operation.kind} {operation.id} is deleted")
        return timeline

    def _moment(self, operation: Operation) -> int:
        return operation.at if operation.at is not None else int(self._machinery.clock.now())

    def _shown_in(self, operation: Operation, timeline: Timeline) -> Iterator[Body]:
        """Give whatever shows a changed label or milestone its next version; no stamp moves and nothing is told."""
        fact = {"label": "_labels", "milestone": "_milestone"}.get(operation.kind)
        if fact is None:
            return
        number, gone = int(timeline.id), timeline.latest.body is None
        for kind in ("issue", "pull_request"):
            for _, each, facts in list(self._world.shelf(timeline.scope, kind).newest(None)):
                held = facts[fact]
                if held == number or (isinstance(held, list) and number in held):
                    left = [id_ for id_ in held if id_ != number] if isinstance(held, list) else None
                    self._put(each, {**facts, fact: left} if gone else facts)
                    yield self._answer(each, events=[])

    def _comments(self, scope: str, number: int) -> Iterator[Timeline]:
        for _, timeline, facts in self._world.shelf(scope, "issue_comment").newest(None):
            if facts["_issue"] == number:
                yield timeline

    def _under(self, timeline: Timeline, *, number: str) -> Iterator[Timeline]:
        """Yield what goes with an object, besides the comments of issues."""
        for name, kind in KINDS.items():
            if kind.belongs == timeline.kind and name != "issue_comment":
                for _, each, facts in self._world.shelf(timeline.scope, name).newest(None):
                    if str(facts["_parent"]) == number:
                        yield each

    def _touched(self, operation: Operation, kind: str, number: int) -> list[Body]:
        """Let what something new is under move its stamp: the event of the new one tells of it."""
        timeline = self._world.find(operation.scope, kind, str(number))
        if timeline is None or timeline.latest.body is None or operation.stamp is Stamp.KEEP:
            return []
        facts = timeline.latest.body
        self._put(timeline, {**facts, "_updated": max(facts["_updated"], self._moment(operation))})
        return [self._answer(timeline, events=[])]

    def _silently_gone(self, timeline: Timeline) -> Body:
        self._put(timeline, None)
        return self._answer(timeline, events=[])

    def _carry(self, comment: Timeline, *, to: str, number: int) -> None:
        facts = comment.latest.body or {}
        moved = Timeline(to, "issue_comment", comment.id)
        self._put(moved, {**facts, "_issue": number}, created=facts["_created"])
        self._put(comment, None)

    def _commented(self, operation: Operation, number: int, more: int) -> list[Body]:
        """Let the issue of a comment count it; its stamp moves, and the comment's event tells of it."""
        for kind in ("issue", "pull_request"):
            timeline = self._world.find(operation.scope, kind, str(number))
            if timeline is not None and timeline.latest.body is not None:
                facts = timeline.latest.body
                kept = operation.stamp is Stamp.KEEP or self._moment(operation) < facts["_updated"]
                stamps = {} if kept else {"_updated": self._moment(operation)}
                self._put(timeline, {**facts, "_comments": facts["_comments"] + more, **stamps})
                return [self._answer(timeline, events=[])]
        return []


def _time(value: JSON) -> int | None:
    try:
        return seconds(value)
    except (TypeError, ValueError):
        raise Refused(f"{value!r} is no time such as 2026-11-30T12:00:00Z") from None


def _login(value: JSON) -> JSON:
    return value.get("login") if isinstance(value, dict) else value
