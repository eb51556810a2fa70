"""What webhooks tell of a change."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from adapters.sandbox.github.bodies import last_facts
from adapters.sandbox.github.hooks import Event
from adapters.sandbox.github.kinds import KINDS, Told

if TYPE_CHECKING:
    from collections.abc import Callable

    from adapters.sandbox.github.bodies import Views
    from adapters.sandbox.github.kinds import Kind
    from adapters.sandbox.world import JSON, Body, Timeline, World


@dataclass(frozen=True, slots=True)
class Change:
    """One object before and after; None: it does not exist."""

    kind: Kind
    timeline: Timeline
    before: Body | None
    after: Body | None


class Teller:
    """Makes the events of changes."""

    def __init__(self, world: World, *, user: str, views: Callable[[], Views]) -> None:
        self._world = world
        self._user = user
        self._views = views

    def guid(self) -> str:
        """Return a new GUID, the same for the same seed."""
        return str(uuid.uuid5(uuid.NAMESPACE_OID, self._world.new_id("guid-")))

    def event(self, change: Change, told: Told, **more: JSON) -> Event:
        """Return the event of one change, with *more* in its payload."""
        views, timeline = self._views(), change.timeline
        facts = change.after or change.before or {}
        inside = change.kind.home != "organization"
        scope = (timeline.scope or timeline.id) if inside else ""
        home = self._world.find("", "repository", scope) if inside else None
        owner = last_facts(home)["_owner"] if inside else views.login_of(timeline.scope)
        name = told.event or change.kind.event
        payload: Body = {"action": told.action, change.kind.key: views.delivered(timeline, facts)}
        if not told.action:
            payload = _of_branch(name, change)
        if change.before is not None and change.after is not None and told.action:
            payload["changes"] = _changes(change)
        payload |= more
        if timeline.kind == "pull_request":
            payload["number"] = facts["_number"]
        if timeline.kind == "issue_comment":
            payload |= self._issue_of(views, timeline.scope, facts)
        payload |= self._parent_of(views, change, facts)
        payload |= self._labels_of(views, timeline.scope, told)
        if home is not None and timeline.kind != "repository":
            payload["repository"] = views.delivered(home, last_facts(home))
        if views.is_organization(owner):
            payload["organization"] = views.organization(owner)
        payload["sender"] = views.user(self._user)
        action = told.action or None
        return Event(guid=self.guid(), name=name, action=action, scope=scope, owner=owner, payload=payload)

    def leaving(self, timeline: Timeline) -> Event:
        """Return the event of an issue that is about to be transferred, as it can still be seen in its old place."""
        facts = last_facts(timeline)
        return self.event(Change(KINDS["issue"], timeline, None, facts), Told("transferred"))

    def transferred(self, leaving: Event, arrived: Timeline) -> tuple[Event, Event]:
        """Return the events of a transfer that is done: of the old place and of the new one."""
        views, home = self._views(), self._world.find("", "repository", arrived.scope)
        facts = last_facts(arrived)
        new: Body = {"new_issue": views.delivered(arrived, facts)}
        if home is not None:
            new["new_repository"] = views.delivered(home, last_facts(home))
        old = {"old_issue": leaving.payload["issue"], "old_repository": leaving.payload["repository"]}
        arriving = self.event(Change(KINDS["issue"], arrived, None, facts), Told("opened"), changes=old)
        return replace(leaving, payload={**leaving.payload, "changes": new}), arriving

    def _issue_of(self, views: Views, scope: str, facts: Body) -> Body:
        number = str(facts["_issue"])
        issue, pull = (self._world.find(scope, kind, number) for kind in ("issue", "pull_request"))
        if issue is not None and issue.latest.body is not None:
            return {"issue": views.delivered(issue, issue.latest.body)}
        if pull is not None and pull.latest.body is not None:
            return {"issue": views.as_issue(pull, pull.latest.body)}
        return {}

    def _parent_of(self, views: Views, change: Change, facts: Body) -> Body:
        kind = change.kind
        above = self._world.find(change.timeline.scope, kind.belongs, str(facts["_parent"])) if kind.beside else None
        if above is None or above.latest.body is None:
            return {}
        return {kind.belongs: views.delivered(above, above.latest.body)}

    def _labels_of(self, views: Views, scope: str, told: Told) -> Body:
        for id_ in told.labels:
            timeline = self._world.find(scope, "label", str(id_))
            if timeline is not None and timeline.latest.body is not None:
                return {"label": views.delivered(timeline, timeline.latest.body)}
        return {}


def _of_branch(event: str, change: Change) -> Body:
    """Return what a push says, or the making or deletion of a branch."""
    facts = change.after or change.before or {}
    if event != "push":
        return {"ref": facts["name"], "ref_type": "branch", "master_branch": "main", "pusher_type": "user"}
    heads = [each["_head"] if each is not None else "0" * 40 for each in (change.before, change.after)]
    return {"ref": f"refs/heads/{facts['name']}", "before": heads[0], "after": heads[1], "commits": []}


def _changes(change: Change) -> Body:
    """Return what an edit's payload says of the values there were."""
    before, after = change.before or {}, change.after or {}
    watched = ("title", "name", "description", "body", "color")
    changed = [name for name in watched if before.get(name) != after.get(name)]
    changes: Body = {name: {"from": before.get(name)} for name in changed if name in before}
    if change.timeline.kind == "repository" and "name" in changes:
        changes["repository"] = {"name": changes.pop("name")}
    if before.get("_owner") != after.get("_owner"):
        changes["owner"] = {"from": {"user": {"login": before["_owner"]}}}
    return changes
