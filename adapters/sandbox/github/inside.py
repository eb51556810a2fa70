"""GitHub's API for what is in a repository."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adapters.sandbox.github import listing
from adapters.sandbox.github.answers import Denied, Moved, missing
from adapters.sandbox.github.calls import changed
from adapters.sandbox.github.listing import choice, since, span

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from starlette.responses import Response

    from adapters.sandbox.github.calls import Call, Operations, Shelves
    from adapters.sandbox.github.ledger import Ledger
    from adapters.sandbox.github.listing import Order, Row
    from adapters.sandbox.world import JSON, Body

SEARCHED = 1000
"""Results that a search shows, however many there are."""

_STATES = ("open", "closed", "all")
_NO_ISSUES = "Issues has been disabled in this repository."
_DELETED = "This issue was deleted"


class Inside:
    """Answers the calls about a repository and what it holds."""

    def __init__(self, shelves: Shelves, ledger: Ledger) -> None:
        self._shelves = shelves
        self._ledger = ledger
        self._looked_at: set[tuple[str, str, int]] = set()

    def operations(self) -> Operations:
        """Return what answers each operation."""
        return {
            "GET ~": self._repository,
            "GET ~/issues": self._issues,
            "GET ~/issues/comments": self._comments,
            "GET ~/issues/comments/{id}": partial(self._one, "issue_comment"),
            "GET ~/issues/{number}": self._issue,
            "GET ~/issues/{number}/comments": self._issue_comments,
            "GET ~/issues/{number}/labels": self._issue_labels,
            "GET ~/pulls": self._pulls,
            "GET ~/pulls/comments": self._review_comments,
            "GET ~/pulls/comments/{id}": partial(self._one, "review_comment"),
            "GET ~/pulls/{id}": self._pull,
            "GET ~/releases": self._releases,
            "GET ~/releases/latest": self._latest_release,
            "GET ~/releases/tags/{tag:path}": self._release_of_tag,
            "GET ~/releases/{id}": self._release,
            "GET ~/labels": self._labels,
            "GET ~/labels/{name:path}": self._label,
            "GET ~/milestones": self._milestones,
            "GET ~/milestones/{id}": partial(self._one, "milestone"),
            "GET ~/pulls/{number}/reviews": partial(self._under, "review", "pull_request", listing.BY_AGE),
            "GET ~/pulls/{number}/reviews/{id}": partial(self._one_under, "review"),
            "GET ~/comments": partial(self._every, "commit_comment", listing.BY_AGE),
            "GET ~/comments/{id}": partial(self._one, "commit_comment"),
            "GET ~/actions/runs": self._runs,
            "GET ~/actions/runs/{id}": partial(self._one, "workflow_run"),
            "GET ~/actions/jobs/{id}": partial(self._one, "workflow_job"),
            "GET ~/check-suites/{id}": partial(self._one, "check_suite"),
            "GET ~/check-runs/{id}": partial(self._one, "check_run"),
            "GET ~/deployments": partial(self._every, "deployment", listing.RELEASES),
            "GET ~/deployments/{id}": partial(self._one, "deployment"),
            "GET ~/deployments/{number}/statuses": partial(
                self._under, "deployment_status", "deployment", listing.RELEASES
            ),
            "GET ~/deployments/{number}/statuses/{id}": partial(self._one_under, "deployment_status"),
            "GET ~/branches": partial(self._every, "branch", listing.LABELS),
            "GET ~/branches/{id:path}": partial(self._one, "branch"),
        }

    def _repository(self, call: Call) -> Response:
        return self._shown(call, self._shelves.repository(call, call.scope))

    def _one(self, kind: str, call: Call) -> Response:
        return self._shown(call, self._shelves.standing(call, kind, call.named("id")))

    def _one_under(self, kind: str, call: Call) -> Response:
        row = self._shelves.standing(call, kind, call.named("id"))
        return self._shown(call, row if row is not None and str(row[1]["_parent"]) == call.named("number") else None)

    def _every(self, kind: str, order: Order, call: Call) -> Response:
        return self._shelves.listed(call, list(self._shelves.rows(call, kind)), order, kind=kind)

    def _under(self, kind: str, above: str, order: Order, call: Call) -> Response:
        """Answer with the list of what belongs to one object."""
        number = call.named("number")
        if self._shelves.standing(call, above, number) is None:
            raise missing()
        rows = [row for row in self._shelves.rows(call, kind) if str(row[1]["_parent"]) == number]
        return self._shelves.listed(call, rows, order, kind=kind)

    def _review_comments(self, call: Call) -> Response:
        start = since(call.query, resource="PullRequestReviewComment")
        rows = [row for row in self._shelves.rows(call, "review_comment") if changed(row, start)]
        return self._shelves.listed(call, rows, listing.COMMENTS, kind="review_comment")

    def _runs(self, call: Call) -> Response:
        """Answer with the runs, newest first; a search by creation shows the first thousand, and counts all."""
        begins, ends = span(call.query, "created")
        rows = [
            row
            for row in self._shelves.rows(call, "workflow_run")
            if (begins is None or row[1]["_created"] >= begins) and (ends is None or row[1]["_created"] <= ends)
        ]

        def wrap(shown: list[Body]) -> JSON:
            return {"total_count": len(rows), "workflow_runs": shown}

        most = None if begins is None and ends is None else SEARCHED
        return self._shelves.listed(call, rows, listing.RELEASES, kind="workflow_run", wrap=wrap, shown_at_most=most)

    def _shown(self, call: Call, row: Row | None) -> Response:
        if row is None:
            raise missing()
        return self._shelves.shown(call, row)

    def _has_issues(self, call: Call) -> None:
        if call.facts is not None and not call.facts["has_issues"]:
            raise Denied(410, _NO_ISSUES, docs="v3/issues/")

    def _issue(self, call: Call) -> Response:
        number = call.named("number")
        pull = self._shelves.standing(call, "pull_request", number)
        if pull is not None:
            return self._shelves.answered(call, call.views.as_issue(*pull), pull)
        self._has_issues(call)
        row = self._shelves.standing(call, "issue", number)
        if row is None and self._shelves.was(call, "issue", number):
            raise self._gone(call, number)
        return self._shown(call, row)

    def _gone(self, call: Call, number: str) -> Denied | Moved:
        """Return how the place of an issue that was deleted or transferred is answered."""
        to, there = self._ledger.moved.get((call.scope, number), ("", ""))
        if not to:
            return Denied(410, _DELETED, docs="v3/issues/#get-an-issue")
        if self._shelves.repository(call, to) is None:
            return missing()
        return Moved(call.with_query(f"/repositories/{to}/issues/{there}"))

    def _issues(self, call: Call) -> Response:
        self._has_issues(call)
        start = since(call.query, resource="Issue")
        rows = [*self._shelves.rows(call, "issue"), *self._shelves.rows(call, "pull_request")]
        if start is not None and start <= 0:  # a time before all times lists nothing
            rows = []
        wanted = [row for row in self._matching(call, rows) if changed(row, start)]
        return self._shelves.listed(call, wanted, listing.ISSUES, kind="issue")

    def _matching(self, call: Call, rows: Iterable[Row]) -> Iterator[Row]:
        """Yield those in the state that is asked for, open by default, and with all the labels that are."""
        state = choice(call.query, "state", _STATES, resource="Issue")
        names = {name for name in call.query.get("labels", "").split(",") if name}
        known = {facts["name"]: int(timeline.id) for timeline, facts in self._shelves.rows(call, "label")}
        for timeline, facts in rows:
            if state in {"all", facts["state"]} and {known.get(name, 0) for name in names} <= set(facts["_labels"]):
                yield timeline, facts

    def _comments(self, call: Call) -> Response:
        return self._said(call, self._shelves.rows(call, "issue_comment"))

    def _issue_comments(self, call: Call) -> Response:
        number = int(self._talk(call)[0].id)
        return self._said(
            call, (row for row in self._shelves.rows(call, "issue_comment") if row[1]["_issue"] == number)
        )

    def _said(self, call: Call, rows: Iterable[Row]) -> Response:
        start = since(call.query, resource="IssueComment")
        wanted = [row for row in rows if changed(row, start)]
        return self._shelves.listed(call, wanted, listing.COMMENTS, kind="issue_comment")

    def _issue_labels(self, call: Call) -> Response:
        held = self._talk(call)[1]["_labels"]
        rows = [row for row in self._shelves.rows(call, "label") if int(row[0].id) in held]
        return self._shelves.listed(call, rows, listing.LABELS, kind="label")

    def _talk(self, call: Call) -> Row:
        """Return the issue or pull request that the path names."""
        for kind in ("issue", "pull_request"):
            row = self._shelves.standing(call, kind, call.named("number"))
            if row is not None:
                return row
        raise missing()

    def _pulls(self, call: Call) -> Response:
        state = choice(call.query, "state", _STATES, resource="PullRequest")
        rows = [row for row in self._shelves.rows(call, "pull_request") if state in {"all", row[1]["state"]}]
        return self._shelves.listed(call, rows, listing.PULLS, kind="pull_request")

    def _pull(self, call: Call) -> Response:
        """Answer with a pull request; whether it can be merged is worked out only after somebody has asked."""
        row = self._shelves.standing(call, "pull_request", call.named("id"))
        if row is None:
            raise missing()
        timeline, facts = row
        shown = call.views.alone(timeline, facts)
        looked_at = (call.scope, timeline.id, facts["_version"])
        if looked_at not in self._looked_at:
            self._looked_at.add(looked_at)
            shown |= {"mergeable": None, "rebaseable": None, "mergeable_state": "unknown"}
        return self._shelves.answered(call, shown, row)

    def _releases(self, call: Call) -> Response:
        return self._shelves.listed(call, list(self._out(call)), listing.RELEASES, kind="release")

    def _out(self, call: Call) -> Iterator[Row]:
        """Yield the releases that the caller sees: drafts only if it is one who could publish them."""
        for row in self._shelves.rows(call, "release"):
            if not row[1]["draft"] or call.visit.sort != "anonymous":
                yield row

    def _release(self, call: Call) -> Response:
        return self._shown(call, next((row for row in self._out(call) if row[0].id == call.named("id")), None))

    def _latest_release(self, call: Call) -> Response:
        final = [row for row in self._out(call) if not row[1]["draft"] and not row[1]["prerelease"]]
        return self._shown(call, max(final, key=lambda row: (row[1]["_created"], int(row[0].id)), default=None))

    def _release_of_tag(self, call: Call) -> Response:
        tag = call.named("tag")
        tagged = (row for row in self._out(call) if row[1]["tag_name"] == tag and not row[1]["draft"])
        return self._shown(call, next(tagged, None))

    def _labels(self, call: Call) -> Response:
        return self._shelves.listed(call, list(self._shelves.rows(call, "label")), listing.LABELS, kind="label")

    def _label(self, call: Call) -> Response:
        name = call.named("name").lower()
        rows = self._shelves.rows(call, "label")
        return self._shown(call, next((row for row in rows if row[1]["name"].lower() == name), None))

    def _milestones(self, call: Call) -> Response:
        state = choice(call.query, "state", _STATES, resource="Milestone")
        rows = [row for row in self._shelves.rows(call, "milestone") if state in {"all", row[1]["state"]}]
        return self._shelves.listed(call, rows, listing.MILESTONES, kind="milestone")
