"""Every example delivery of GitHub's, signed by its own library, through the real listener into a real database."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from adapters.github import KINDS
from adapters.github.events import IGNORED
from reconciler import content
from reconciler.model import Delivery
from tests.conformance.conftest import answered
from tests.paths.cases import HOOK, SECRET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.conformance.packages import Package
    from tests.paths.cases import Case, MakeCase

_SIGN: Final = Path(__file__).with_name("sign.mjs")
_API: Final = "https://api.github.com"

SUBJECT: Final = {
    "check_run": ("check_run", "/check_run/id"),
    "check_suite": ("check_suite", "/check_suite/id"),
    "commit_comment": ("commit_comment", "/comment/id"),
    "create": ("branch", "/ref"),
    "delete": ("branch", "/ref"),
    "deployment": ("deployment", "/deployment/id"),
    "deployment_status": ("deployment_status", "/deployment_status/id"),
    "issue_comment": ("issue_comment", "/comment/id"),
    "issues": ("issue", "/issue/number"),
    "label": ("label", "/label/id"),
    "membership": ("member", "/member/id"),
    "milestone": ("milestone", "/milestone/number"),
    "organization": ("member", "/membership/user/id"),
    "pull_request": ("pull_request", "/pull_request/number"),
    "pull_request_review": ("review", "/review/id"),
    "pull_request_review_comment": ("review_comment", "/comment/id"),
    "pull_request_review_thread": ("pull_request", "/pull_request/number"),
    "release": ("release", "/release/id"),
    "repository": ("repository", "/repository/id"),
    "team": ("team", "/team/id"),
    "team_add": ("team", "/team/id"),
    "workflow_job": ("workflow_job", "/workflow_job/id"),
    "workflow_run": ("workflow_run", "/workflow_run/id"),
}
"""The kind that an event is about by its name, and where the payload shows the id."""

UNSHOWN: Final = {
    "branch": "/ref",
    "label": "/label/id",
    "member": "/membership/user/id /member/id",
    "review": "/review/id",
    "team": "/team/id",
    "workflow_run": "/workflow_job/run_id /workflow_run/id",
}
"""Where kinds have their ids whose objects do not show the address that they are fetched from."""

SILENT: Final = {
    "create.tag": "a tag is no branch",
    "delete.tag": "a tag is no branch",
    "organization.member_invited": "whoever is invited is no member yet",
    "organization.renamed": "numbers identify, whatever an organization is called",
}
"""Why some of the deliveries of an event name nothing, though others do."""

MADE_UP: Final = {
    ("issues.opened", "issue"): "what it was transferred from has the address of a third repository",
    ("issues.transferred", "issue"): "the same of what was transferred",
    ("workflow_job.*", "workflow_job"): "it has the address of another repository's, and another number",
    ("pull_request_review.dismissed", "pull_request"): "it has the address of another repository's",
}
"""Examples that contradict themselves, and the kind of which they do."""


@dataclass(frozen=True, slots=True)
class Example:
    """One example, and what GitHub's own library signs it with."""

    id: str
    event: str
    body: bytes
    signature: str

    @property
    def payload(self) -> Any:
        """What it says."""
        return content.parse(self.body)

    def delivery(self) -> Delivery:
        """Return it as GitHub sends it."""
        headers = {
            "content-type": "application/json",
            "user-agent": "GitHub-Hookshot/0000000",
            "x-github-event": self.event,
            "x-github-delivery": self.id,
            "x-github-hook-id": HOOK,
            "x-hub-signature-256": self.signature,
        }
        return Delivery(headers, self.body, datetime.now(UTC))


@pytest.fixture(scope="module")
def examples(published: Callable[[str], Package], tmp_path_factory: pytest.TempPathFactory) -> list[Example]:
    """Return every example, signed."""
    folder = tmp_path_factory.mktemp("signed")
    methods = published("@octokit/webhooks-methods").unpack(folder / "methods")
    shown = published("@octokit/webhooks-examples").unpack(folder / "examples")
    done = subprocess.run(
        ["node", str(_SIGN), f"{methods}/dist-node/index.js", f"{shown}/api.github.com/index.json", SECRET],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    told = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        Example(f"00000000-0000-4000-8000-{number:012}", each["event"], each["body"].encode(), each["signature"])
        for number, each in enumerate(told)
    ]


@pytest.fixture
def case(case_of: MakeCase, examples: Sequence[Example]) -> Case:
    """Return our side, to which everybody who stands in an example belongs."""
    owners = {str(each["owner"]["login"]) for example in examples for each in _repositories(example.payload)}
    owners |= {str(each["organization"]["login"]) for each in _payloads(examples) if "organization" in each}
    return case_of("github", more=f"organizations = {json.dumps(sorted(owners))}")


def test_every_example_is_answered(case: Case, examples: Sequence[Example]) -> None:
    """Each is verified, made durable and answered 200; what it names is right, or there is a reason for nothing."""
    answers = case.post(*(example.delivery() for example in examples))
    stored = answered(case)
    named = [(example, stored.get(f"{example.id}/{HOOK}")) for example in examples]
    wrong = sorted({each for example, found in named for each in _wrong(example, found or set())})

    assert len(examples) > 300
    assert {(each.status_code, each.json()["duplicate"]) for each in answers} == {(200, False)}
    assert [example.id for example, found in named if found is None] == []
    assert not wrong, wrong


def test_every_reason_is_needed(examples: Sequence[Example]) -> None:
    """No reason stands for an event that names a mirrored kind by now, and the tables here name no other."""
    named = {event for row in KINDS.values() for event in row.topics}

    assert IGNORED.keys() & named == set()
    assert all(IGNORED.values())
    assert {kind for kind, _ in SUBJECT.values()} | UNSHOWN.keys() <= KINDS.keys()
    assert {said.partition(".")[0] for said in [*SILENT, *(each for each, _ in MADE_UP)]} <= {
        example.event for example in examples
    }


def test_another_signature_is_refused(case: Case, examples: Sequence[Example]) -> None:
    """What was signed for one example vouches for no other one."""
    first, second = examples[0], examples[1]
    exchanged = Example(first.id, first.event, first.body, second.signature)

    [answer] = case.post(exchanged.delivery())

    assert (answer.status_code, answer.json()) == (400, {"error": "signature"})
    assert answered(case) == {}


def _wrong(example: Example, named: set[tuple[str, str, str]]) -> Iterator[str]:
    """Yield what is wrong with the objects that an example names."""
    payload = example.payload
    said = f"{example.event}.{payload.get('action') or payload.get('ref_type', '')}"
    kind, id_ = _subject(example.event, payload)
    if said not in SILENT and id_ and (kind, id_) not in {(each, number) for each, _, number in named}:
        yield f"{said}: does not name {kind} {id_}"
    if not named and example.event not in IGNORED and said not in SILENT:
        yield f"{said}: names nothing, and nobody says why"
    for ref in named:
        made_up = {(said, ref[0]), (f"{example.event}.*", ref[0])} & MADE_UP.keys()
        if ref not in _shown(payload, ref[0]) and not made_up:
            yield f"{said}: names {ref}, which it does not show"


def _subject(event: str, payload: Any) -> tuple[str, str]:
    """Return the kind and id of what an event is about; either is empty where nothing tells it."""
    kind, pointer = SUBJECT.get(event, ("", ""))
    if event == "issues" and content.find(payload, "/issue/pull_request") is not None:
        kind = "pull_request"
    told = content.find(payload, pointer) if pointer else None
    return kind, "" if told is None else str(told)


def _shown(payload: Any, kind: str) -> set[tuple[str, str, str]]:
    """Return all of *kind* that a payload shows, found by the address that each is fetched from."""
    row = KINDS[kind]
    homes = {str(each["full_name"]): str(each["id"]) for each in _repositories(payload)}
    found = set()
    for name, number in homes.items():
        if kind == "repository":
            found.add((kind, "", number))
        tail = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(row.kind.fetch.removeprefix("GET /repositories/{scope}")))
        address = re.compile(re.escape(f"{_API}/repos/{name}") + tail)
        for each in _objects(payload):
            addresses = (each.get("url"), content.find(each, "/pull_request/url"))
            if any(isinstance(url, str) and address.fullmatch(url) for url in addresses):
                found.add((kind, number, str(content.find(each, row.key))))
    scopes = [*homes.values(), str(content.find(payload, "/organization/id"))]
    for pointer in UNSHOWN.get(kind, "").split():
        told = str(content.find(payload, pointer)).removeprefix("refs/heads/")
        found |= {(kind, scope, told) for scope in scopes}
    return found


def _payloads(examples: Sequence[Example]) -> Iterator[Any]:
    return (example.payload for example in examples)


def _repositories(payload: Any) -> Iterator[Any]:
    """Yield every repository that a payload shows whole."""
    return (each for each in _objects(payload) if "full_name" in each and "owner" in each and "id" in each)


def _objects(value: Any) -> Iterator[Any]:
    """Yield every object in a value, itself first."""
    if isinstance(value, dict):
        yield value
        for inner in value.values():
            yield from _objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _objects(inner)
