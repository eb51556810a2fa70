"""The stand-in for GitHub, seen through the real SDK and plain HTTP."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import threading
import time
from base64 import urlsafe_b64encode
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import github
import httpx
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from adapters.sandbox import GitHubSandbox, providers, serving, stand_in
from adapters.sandbox.clock import Clock
from adapters.sandbox.github import INSTALLATION
from adapters.sandbox.github.hooks import APP_ID, HISTORY, LARGEST, signatures
from adapters.sandbox.github.kinds import KINDS
from adapters.sandbox.operations import Deed, Operation
from reconciler.content import parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from github.Repository import Repository
    from starlette.types import ASGIApp, Receive, Scope, Send

NOW = 1_790_000_000
TOKEN = "ghp_standin"
SECRET = "a secret of a stand-in"
PATHS = {
    "repository": "",
    "issue": "/issues",
    "pull_request": "/pulls",
    "issue_comment": "/issues/comments",
    "release": "/releases",
    "label": "/labels",
    "milestone": "/milestones",
}
LISTED = {kind: path for kind, path in PATHS.items() if path}


@dataclass
class Hands:
    """A clock that goes on only when it is told to."""

    now: float = float(NOW)

    def tick(self, seconds: float) -> None:
        """Go on."""
        self.now += seconds

    def clock(self) -> Clock:
        """Return the clock these hands show."""
        return Clock(lambda: self.now, ticks=lambda: self.now)


@dataclass
class Bench:
    """A stand-in that is being served with one repository, and the ways to reach it."""

    hands: Hands
    sandbox: GitHubSandbox
    url: str
    http: httpx.Client
    repository: str = ""

    def sdk(self, token: str = TOKEN) -> github.Github:
        """Return the real SDK, pointed at the stand-in."""
        return github.Github(
            auth=github.Auth.Token(token),
            base_url=self.url,
            retry=None,
            timeout=10,
            per_page=100,
            seconds_between_requests=0,
            seconds_between_writes=0,
            api_version="2022-11-28",
        )

    def shop(self) -> Repository:
        """Return the repository as the SDK sees it."""
        return self.sdk().get_repo("acme/shop")

    def get(self, path: str, *, token: str | None = TOKEN, **headers: str) -> httpx.Response:
        """Call the API; a path that begins with `~` is inside the repository."""
        path = path.replace("~", f"/repositories/{self.repository}", 1)
        credentials = {"Authorization": f"token {token}"} if token else {}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.get(path, headers={**credentials, **named})

    def shown(self, path: str) -> Any:
        """Return what a call answers."""
        response = self.get(path)
        assert response.status_code == 200, response.text
        return response.json()

    def numbers(self, path: str) -> list[int]:
        """Return the numbers on one page of a list, in its order."""
        return [each["number"] for each in self.shown(path)]

    def do(self, op: str, kind: str, id_: str | None = None, **more: object) -> dict[str, Any]:
        """Carry out one operation, in the repository unless another scope is given."""
        scope = {} if kind == "repository" else {"scope": self.repository}
        response = self.http.post("/_control/objects", json={"op": op, "kind": kind, "id": id_, **scope, **more})
        assert response.status_code == 200, response.text
        return response.json()  # type: ignore[no-any-return]

    def create(self, kind: str, count: int = 1, **more: Any) -> list[str]:
        """Create several objects and return their ids, oldest first."""
        return [self.do("create", kind, **more)["id"] for _ in range(count)]

    def truth(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return what really is there, by id."""
        found = parse(self.http.get("/_control/objects", params={"kind": kind, "scope": self.scope(kind)}).content)
        return {each["id"]: each for each in found}

    def scope(self, kind: str) -> str:
        """Return the scope of the objects of a kind."""
        return "" if kind == "repository" else self.repository

    def path(self, kind: str, id_: str) -> str:
        """Return the path of an object."""
        if kind == "repository":
            return f"/repositories/{id_}"
        name = self.truth(kind)[id_]["body"]["name"] if kind == "label" else id_
        return f"~{PATHS[kind]}/{name}"

    def put(self, path: str, content: object) -> None:
        """Set something by a control route."""
        response = self.http.put(f"/_control/{path}", json=content)
        assert response.status_code == 200, response.text

    def flush(self) -> None:
        """Wait until no delivery is on its way."""
        assert self.http.post("/_control/flush?timeout=20", timeout=60).json()["pending"] == 0


class Stage:
    """One server for all tests of this module; each test puts a stand-in of its own on it."""

    def __init__(self) -> None:
        self.playing: GitHubSandbox | None = None

    @property
    def app(self) -> ASGIApp:
        """Whoever plays."""
        return self

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let whoever plays answer."""
        assert self.playing is not None
        await self.playing.app(scope, receive, send)

    def close(self) -> None:
        """Nothing runs besides."""


@dataclass(frozen=True)
class Theatre:
    """The stage and where it is."""

    stage: Stage
    url: str

    @contextmanager
    def plays(self, hands: Hands, **settings: Any) -> Iterator[Bench]:
        """Let a stand-in answer while the block runs."""
        sandbox = GitHubSandbox(7, clock=hands.clock(), **settings)
        self.stage.playing = sandbox
        with httpx.Client(base_url=self.url, timeout=10, follow_redirects=False) as http:
            bench = Bench(hands, sandbox, self.url, http)
            bench.repository = bench.do("create", "repository", body={"owner": "acme", "name": "shop"})["id"]
            yield bench
        sandbox.close()


@pytest.fixture(scope="module")
def theatre() -> Iterator[Theatre]:
    """Run a server."""
    stage = Stage()
    with serving(stage) as running:
        yield Theatre(stage, running.url)


@pytest.fixture
def bench(theatre: Theatre) -> Iterator[Bench]:
    """Serve a stand-in with one repository, acme/shop."""
    with theatre.plays(Hands()) as served:
        yield served


@dataclass
class Receiver:
    """Somebody's webhook endpoint: keeps what arrives and answers as it was told."""

    url: str
    answers: list[int] = field(default_factory=list)
    arrived: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self) -> int:
        """Return the next answer; 200 once they are used up."""
        with self.lock:
            return self.answers.pop(0) if self.answers else 200

    def events(self) -> list[str]:
        """Return what arrived, as `event.action`, sorted."""
        return sorted(f"{headers['x-github-event']}.{json.loads(body).get('action')}" for headers, body in self.arrived)

    def payload(self) -> Any:
        """Return the payload that arrived last."""
        return json.loads(self.arrived[-1][1])


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Run a webhook endpoint on this machine."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            with found.lock:
                found.arrived.append(({name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(found.answer())
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Receiver(f"http://127.0.0.1:{server.server_port}/hooks?from=github")
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield found
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def links(response: httpx.Response) -> dict[str, str]:
    """Return the addresses of other pages by rel."""
    return {str(rel): each["url"] for rel, each in response.links.items()}


class TestObjects:
    """Reading one object."""

    @pytest.mark.parametrize("kind", PATHS)
    def test_single_view_is_the_truth(self, bench: Bench, kind: str) -> None:
        """The API shows what the control routes show, and each change counts in the text of the body."""
        [id_] = bench.create(kind)

        answer = bench.do("change", kind, id_)

        bench.get(bench.path(kind, id_))  # a pull request says whether it can be merged when asked again
        body = bench.shown(bench.path(kind, id_))
        text = body["description" if kind in {"repository", "label", "milestone"} else "body"]
        assert bench.truth(kind)[id_]["body"] == body
        assert answer["version"] == bench.truth(kind)[id_]["version"] == 2
        assert text.endswith(" v2")

    def test_sdk_reads_every_kind(self, bench: Bench) -> None:
        """The real SDK finds each object by the name or number that people use."""
        ids = {kind: bench.create(kind)[0] for kind in LISTED}
        shop = bench.shop()

        assert shop.get_issue(int(ids["issue"])).body == "Text 1 v2"
        assert shop.get_pull(int(ids["pull_request"])).additions == 11
        assert shop.get_issue(int(ids["issue"])).get_comments()[0].id == int(ids["issue_comment"])
        assert shop.get_release(int(ids["release"])).tag_name == "v0.1.0"
        assert shop.get_label("label 1").color == "a2eeef"
        assert shop.get_milestone(int(ids["milestone"])).open_issues == 0
        assert bench.sdk().get_repo(int(bench.repository)).full_name == "acme/shop"

    def test_sdk_lists_every_kind(self, bench: Bench) -> None:
        """The real SDK walks each list over its pages."""
        for kind in LISTED:
            bench.create(kind, 120)
        shop = bench.shop()
        lists = (shop.get_pulls(), shop.get_issues_comments(), shop.get_releases(), shop.get_labels())

        assert [len(list(each)) for each in lists] == [120] * 4
        assert len(list(shop.get_milestones())) == 120
        assert len(list(shop.get_issues())) == 240

    def test_sdk_reads_whoever_asks(self, bench: Bench) -> None:
        """A token has a person, an organization has repositories, and people have none of its."""
        sdk = bench.sdk()

        assert sdk.get_user().login == "standin"
        assert [each.full_name for each in sdk.get_organization("ACME").get_repos()] == ["acme/shop"]
        assert [each.full_name for each in sdk.get_user().get_repos()] == ["acme/shop"]
        assert sdk.get_user("standin").type == "User"
        assert bench.get("/orgs/standin").status_code == 404
        assert bench.get("/users/nobody").status_code == 404

    def test_urls_lead_back(self, bench: Bench) -> None:
        """The address inside each body is on this host, and answers with that body."""
        for kind in PATHS:
            [id_] = bench.create(kind)
            bench.get(bench.path(kind, id_))

            body = bench.shown(bench.path(kind, id_))

            assert body["url"].startswith(bench.url)
            assert bench.shown(body["url"]) == body

    @pytest.mark.parametrize("path", ["~/issues/99", "~/issues/x", "~/pulls/99", "~/labels/none", "/repos/acme/none"])
    def test_unknown_one_is_missing(self, bench: Bench, path: str) -> None:
        """What is not there is refused as GitHub words it."""
        response = bench.get(path)

        assert response.status_code == 404
        assert response.json() == {
            "message": "Not Found",
            "documentation_url": "https://docs.github.com/rest",
            "status": "404",
        }

    def test_issues_and_pull_requests_share_their_numbers(self, bench: Bench) -> None:
        """A pull request is an issue too, and says so."""
        ids = [*bench.create("issue"), *bench.create("pull_request"), *bench.create("issue")]

        found = bench.shown("~/issues/2")

        assert ids == ["1", "2", "3"]
        assert found["pull_request"]["url"] == bench.shown("~/pulls/2")["url"]
        assert "additions" not in found
        assert bench.get("~/pulls/1").status_code == 404

    def test_mergeable_is_worked_out_later(self, bench: Bench) -> None:
        """The first read of a pull request does not know yet; later ones do, and the stamp has not moved."""
        bench.create("pull_request")

        first, second = bench.shown("~/pulls/1"), bench.shown("~/pulls/1")

        assert (first["mergeable"], first["mergeable_state"]) == (None, "unknown")
        assert (second["mergeable"], second["mergeable_state"]) == (True, "clean")
        assert first["updated_at"] == second["updated_at"]

    def test_numbers_and_texts_are_exact(self, bench: Bench) -> None:
        """Whatever JSON can say comes back digit by digit, out-of-the-way text included."""
        [id_] = bench.create("issue")
        said = r'{"odd": {"n": 9007199254740993, "d": 0.10, "t": "x\u0000y \ud83d â"}}'
        asked = f'{{"op": "change", "kind": "issue", "id": "{id_}", "scope": "{bench.repository}", "body": {said}}}'

        bench.http.post("/_control/objects", content=asked.encode())

        assert parse(bench.get("~/issues/1").content)["odd"] == parse(said)["odd"]

    def test_comments_count_in_their_issue(self, bench: Bench) -> None:
        """A comment moves the stamp of its issue, and its deletion too."""
        bench.create("issue")
        bench.hands.tick(5)

        [id_] = bench.create("issue_comment", body={"issue": 1})
        commented = bench.shown("~/issues/1")
        bench.do("delete", "issue_comment", id_)

        assert commented["comments"] == 1
        assert commented["updated_at"] > commented["created_at"]
        assert bench.shown("~/issues/1")["comments"] == 0
        assert bench.get(f"~/issues/comments/{id_}").status_code == 404

    def test_closing_and_merging(self, bench: Bench) -> None:
        """What follows from a new state follows."""
        bench.create("issue")
        bench.create("pull_request")

        bench.do("change", "issue", "1", body={"state": "closed"})
        bench.do("change", "pull_request", "2", body={"merged": True})

        issue, pull = bench.shown("~/issues/1"), bench.shown("~/pulls/2")
        assert (issue["closed_by"]["login"], issue["state_reason"]) == ("standin", "completed")
        assert (pull["state"], pull["merged"], pull["merged_by"]["login"]) == ("closed", True, "standin")
        assert issue["closed_at"] == pull["merged_at"] == pull["closed_at"] == "2026-09-21T14:13:20Z"


class TestNames:
    """Repositories that are renamed, transferred, deleted, and names that are used again."""

    def test_old_name_leads_to_the_number(self, bench: Bench) -> None:
        """A renamed repository is a 301 under its old name, the query included."""
        bench.do("change", "repository", bench.repository, body={"name": "store"})

        response = bench.get("/repos/acme/shop/issues?state=all&page=2")

        assert response.status_code == 301
        assert response.headers["location"] == f"{bench.url}/repositories/{bench.repository}/issues?state=all&page=2"
        assert bench.shown("/repos/ACME/Store")["full_name"] == "acme/store"

    def test_transferred_repository_keeps_its_number(self, bench: Bench) -> None:
        """A repository that changes hands is found by its number, and by its old name through it."""
        bench.do("change", "repository", bench.repository, body={"owner": "other"})

        assert bench.shown("~")["owner"]["login"] == "other"
        assert bench.get("/repos/acme/shop").status_code == 301

    def test_name_used_again_is_another_repository(self, bench: Bench) -> None:
        """A new repository takes the name, and nothing leads to the old one by it any more."""
        bench.create("issue")
        bench.do("change", "repository", bench.repository, body={"name": "store"})

        other = bench.do("create", "repository", body={"owner": "acme", "name": "shop"})["id"]

        assert bench.shown("/repos/acme/shop")["id"] == int(other) != int(bench.repository)
        assert bench.shown("/repos/acme/shop/issues") == []
        assert bench.numbers("/repos/acme/store/issues") == [1]
        bench.do("delete", "repository", other)
        assert bench.get("/repos/acme/shop").status_code == 404

    def test_names_are_unique(self, bench: Bench) -> None:
        """Two repositories never have one name."""
        asked = {"op": "create", "kind": "repository", "body": {"owner": "Acme", "name": "SHOP"}}

        response = bench.http.post("/_control/objects", json=asked)

        assert response.status_code == 400

    def test_what_was_in_a_deleted_repository_is_gone_with_it(self, bench: Bench) -> None:
        """A deleted repository is a 404 with all it held, and its owner can restore it."""
        bench.create("issue")

        bench.do("delete", "repository", bench.repository)

        assert bench.get("~").status_code == bench.get("~/issues/1").status_code == 404
        assert bench.truth("issue")["1"]["deleted"]
        bench.do("recreate", "repository", bench.repository)
        assert bench.numbers("~/issues") == [1]

    def test_bodies_follow_the_name(self, bench: Bench) -> None:
        """Addresses inside bodies change with the name, and no stamp moves."""
        bench.create("issue")
        before = bench.shown("~/issues/1")
        bench.hands.tick(60)

        bench.do("change", "repository", bench.repository, body={"name": "store"})

        after = bench.shown("~/issues/1")
        assert after["url"] == before["url"].replace("/shop/", "/store/")
        assert after["updated_at"] == before["updated_at"]


class TestGone:
    """What is deleted, moved, disabled or hidden."""

    def test_deleted_issue_is_gone(self, bench: Bench) -> None:
        """A deleted issue is a 410 that says so, with its comments; lists show it no more."""
        bench.create("issue", 2)
        [comment] = bench.create("issue_comment", body={"issue": 1})

        bench.do("delete", "issue", "1")

        response = bench.get("~/issues/1")
        assert (response.status_code, response.json()["message"]) == (410, "This issue was deleted")
        assert bench.get(f"~/issues/comments/{comment}").status_code == 404
        assert bench.numbers("~/issues") == [2]
        with pytest.raises(github.GithubException) as caught:
            bench.shop().get_issue(1)
        assert caught.value.status == 410

    def test_disabled_issues_are_no_deletion(self, bench: Bench) -> None:
        """A repository without issues answers 410 for one and for all of them, and says why."""
        bench.create("issue")

        bench.do("change", "repository", bench.repository, body={"has_issues": False})

        answers = [bench.get("~/issues/1"), bench.get("~/issues")]
        assert [each.status_code for each in answers] == [410, 410]
        assert {each.json()["message"] for each in answers} == {"Issues has been disabled in this repository."}
        bench.do("change", "repository", bench.repository, body={"has_issues": True})
        assert bench.numbers("~/issues") == [1]

    def test_transferred_issue_leads_to_its_new_place(self, bench: Bench) -> None:
        """A transferred issue is a 301 to another repository and number, its comments with it."""
        bench.create("issue")
        [comment] = bench.create("issue_comment", body={"issue": 1})
        other = bench.do("create", "repository", body={"name": "other"})["id"]
        bench.create("issue", 2, scope=other)

        moved = bench.http.post("/_control/transfer", json={"scope": bench.repository, "id": "1", "to": other}).json()

        response = bench.get("~/issues/1")
        assert (response.status_code, moved["also"][0]["id"]) == (301, "3")
        assert response.headers["location"] == f"{bench.url}/repositories/{other}/issues/3"
        assert bench.shown(f"/repositories/{other}/issues/3")["title"] == "Issue 1"
        assert bench.get(f"~/issues/comments/{comment}").status_code == 404
        assert bench.shown(f"/repositories/{other}/issues/comments/{comment}")["issue_url"].endswith("/other/issues/3")
        assert bench.truth("issue")["1"]["deleted"]

    def test_issue_transferred_out_of_sight_is_missing(self, bench: Bench) -> None:
        """Whoever may not see the new place is told that there is nothing."""
        bench.create("issue")
        other = bench.do("create", "repository", body={"name": "other"})["id"]
        bench.http.post("/_control/transfer", json={"scope": bench.repository, "id": "1", "to": other})

        bench.put("habits", {"hidden": [other]})

        assert bench.get("~/issues/1").status_code == 404

    def test_hidden_repository_is_missing(self, bench: Bench) -> None:
        """Access that is lost to one repository looks as if it had never been; the others stay."""
        other = bench.do("create", "repository", body={"name": "other"})["id"]
        bench.create("issue")

        bench.put("habits", {"hidden": [bench.repository]})

        paths = ("~", "~/issues", "~/issues/1", "/repos/acme/shop")
        assert [bench.get(path).status_code for path in paths] == [404] * 4
        assert [each["id"] for each in bench.shown("/user/repos")] == [int(other)]
        assert not bench.truth("issue")["1"]["deleted"]

    def test_pull_requests_are_never_deleted(self, bench: Bench) -> None:
        """GitHub has no way to delete one."""
        bench.create("pull_request")

        asked = {"op": "delete", "kind": "pull_request", "id": "1", "scope": bench.repository}
        assert bench.http.post("/_control/objects", json=asked).status_code == 400

    def test_deleted_label_frees_its_name_but_not_its_id(self, bench: Bench) -> None:
        """A label of the same name is another label."""
        [first] = bench.create("label", body={"name": "bug"})
        bench.do("delete", "label", first)

        [second] = bench.create("label", body={"name": "bug"})

        assert bench.shown("~/labels/bug")["id"] == int(second) != int(first)


class TestPaging:
    """Pages, `Link` and ceilings."""

    def test_defaults(self, bench: Bench) -> None:
        """A page has 30, at most 100 whatever is asked for, and nonsense is overlooked."""
        bench.create("label", 120)

        sizes = [
            len(bench.shown(f"~/labels{query}"))
            for query in ("", "?per_page=7", "?per_page=101", "?per_page=0", "?per_page=x", "?page=0")
        ]

        assert sizes == [30, 7, 100, 30, 30, 30]

    def test_link_leads_through(self, bench: Bench) -> None:
        """`Link` names the other pages by the repository's number and keeps the query; the last has no next."""
        bench.create("issue", 5)
        path = f"{bench.url}/repositories/{bench.repository}/issues?state=all&per_page=2&page="

        first, middle, last = (bench.get(f"/repos/acme/shop/issues?state=all&per_page=2&page={n}") for n in (1, 2, 3))

        assert links(first) == {"next": f"{path}2", "last": f"{path}3"}
        assert links(middle) == {"prev": f"{path}1", "next": f"{path}3", "last": f"{path}3", "first": f"{path}1"}
        assert links(last) == {"prev": f"{path}2", "first": f"{path}1"}

    def test_page_beyond_the_end_is_empty(self, bench: Bench) -> None:
        """Beyond the end there is nothing, and no error."""
        bench.create("issue", 3)

        response = bench.get("~/issues?per_page=2&page=9")

        assert (response.status_code, response.json()) == (200, [])
        assert links(response)["prev"].endswith("page=2")

    def test_single_page_has_no_link(self, bench: Bench) -> None:
        """Where everything is on one page there is no header."""
        bench.create("issue", 2)

        assert "link" not in bench.get("~/issues").headers

    def test_ceiling(self, bench: Bench) -> None:
        """Whoever counts pages too far is refused and told why."""
        bench.create("issue", 12)
        bench.put("habits", {"ceiling": 10})

        within, beyond = bench.get("~/issues?per_page=5&page=2"), bench.get("~/issues?per_page=5&page=3")

        assert within.status_code == 200
        assert (beyond.status_code, beyond.json()["message"]) == (422, "Only the first 10 results are available.")

    def test_cursors_know_no_ceiling(self, bench: Bench) -> None:
        """Where `Link` hands out cursors, following it shows everything, though what was shown moves."""
        bench.create("issue", 12)
        bench.put("habits", {"ceiling": 5, "cursors": True})
        seen: list[int] = []
        path: str | None = "~/issues?per_page=5&sort=updated&direction=asc"

        while path:
            response = bench.get(path)
            seen += [each["number"] for each in response.json()]
            path = links(response).get("next")
            bench.hands.tick(1)
            bench.do("change", "issue", str(seen[0]))

        assert set(seen) == set(range(1, 13))
        assert bench.get("~/issues?per_page=5&page=2").status_code == 422

    def test_k35_page_shift(self, bench: Bench) -> None:
        """K35: with pages by number, what changes between two of them lets another slip through."""
        for number in range(4):
            bench.create("issue", at=NOW + number)
        walk = "~/issues?sort=updated&direction=asc&per_page=2&page="
        first = bench.numbers(f"{walk}1")
        bench.hands.tick(60)

        bench.do("change", "issue", "1")

        assert first == [1, 2]
        assert bench.numbers(f"{walk}2") == [4, 1]

    @pytest.mark.parametrize("how", ["touch", "create", "delete"])
    def test_pages_shift_by_themselves(self, bench: Bench, how: str) -> None:
        """The fault changes something after each page that has more."""
        bench.create("issue", 4)
        bench.hands.tick(60)
        bench.put("habits", {"shifts": [how]})
        bench.put("faults", {"shift_pages": 1})

        bench.get("~/issues?per_page=2")

        counts = {"touch": (4, [2, 1, 1, 1]), "create": (5, [1] * 5), "delete": (3, [1] * 3)}
        alive = [each for each in bench.truth("issue").values() if not each["deleted"]]
        assert (len(alive), sorted((each["version"] for each in alive), reverse=True)) == counts[how]
        before = bench.truth("issue")
        bench.get("~/issues?per_page=100")
        assert bench.truth("issue") == before


class TestLists:
    """Filters, orders and what a list shows."""

    def test_closed_ones_are_hidden_by_default(self, bench: Bench) -> None:
        """Issues, pull requests and milestones are listed open only, unless asked."""
        bench.create("issue", 2)
        bench.create("pull_request", 2)
        bench.create("milestone", 2)
        for kind, id_ in (("issue", "1"), ("pull_request", "3"), ("milestone", "1")):
            bench.do("change", kind, id_, body={"state": "closed"})

        assert bench.numbers("~/issues") == [4, 2]
        assert bench.numbers("~/issues?state=closed") == [3, 1]
        assert bench.numbers("~/issues?state=all") == [4, 3, 2, 1]
        assert (bench.numbers("~/pulls"), bench.numbers("~/pulls?state=all")) == ([4], [4, 3])
        assert (bench.numbers("~/milestones"), bench.numbers("~/milestones?state=all")) == ([2], [1, 2])

    def test_issue_lists_include_pull_requests(self, bench: Bench) -> None:
        """They are told apart by a key."""
        bench.create("issue")
        bench.create("pull_request")

        assert [("pull_request" in each) for each in bench.shown("~/issues")] == [True, False]

    def test_orders(self, bench: Bench) -> None:
        """Each list has its own default direction; that of pull requests depends on the sort."""
        for kind in ("issue", "pull_request", "issue_comment"):
            for number in range(3):
                bench.create(kind, at=NOW + number, stamp="keep")
        comments = [int(each) for each in bench.truth("issue_comment")]

        def ids(path: str) -> list[int]:
            return [each["id"] for each in bench.shown(path)]

        assert bench.numbers("~/pulls") == [6, 5, 4]
        assert bench.numbers("~/pulls?sort=created") == [6, 5, 4]
        assert bench.numbers("~/pulls?sort=updated") == [4, 5, 6]
        assert bench.numbers("~/issues") == [6, 3, 5, 2, 4, 1]
        assert bench.numbers("~/issues?direction=asc") == [1, 4, 2, 5, 3, 6]
        assert ids("~/issues/comments") == ids("~/issues/comments?direction=desc") == comments
        assert ids("~/issues/comments?sort=updated") == comments[::-1]

    @pytest.mark.parametrize("query", ["state=shut", "sort=age", "direction=up", "since=yesterday"])
    def test_unknown_choices_are_refused(self, bench: Bench, query: str) -> None:
        """A parameter of few values takes no other."""
        response = bench.get(f"~/issues?{query}")

        assert (response.status_code, response.json()["message"]) == (422, "Validation Failed")
        assert response.json()["errors"][0]["field"] == query.partition("=")[0]

    def test_since_is_inclusive(self, bench: Bench) -> None:
        """K36: what changed in that very second is listed, what changed before is not."""
        for number in range(3):
            bench.create("issue", at=NOW + number)
            bench.create("issue_comment", at=NOW + number, stamp="keep", body={"issue": 1})

        assert bench.numbers("~/issues?since=2026-09-21T14:13:21Z&direction=asc") == [2, 3]
        assert len(bench.shown("~/issues/comments?since=2026-09-21T14:13:21Z")) == 2
        assert bench.numbers("~/issues?since=2026-09-21T23:13:22%2B09:00") == [3]
        assert bench.numbers("~/issues?since=2026-09-21T14:13:21.5Z") == [3]

    def test_since_the_epoch_is_empty(self, bench: Bench) -> None:
        """GitHub lists nothing since 1970."""
        bench.create("issue")

        assert bench.shown("~/issues?since=1970-01-01T00:00:00Z") == []

    def test_issues_by_label(self, bench: Bench) -> None:
        """A filter by labels wants all of them."""
        bench.create("issue", body={"labels": ["bug"]})
        bench.create("issue", body={"labels": ["bug", "p1"]})

        assert bench.numbers("~/issues?labels=bug") == [2, 1]
        assert bench.numbers("~/issues?labels=bug,p1") == [2]
        assert bench.numbers("~/issues?labels=none") == []

    @pytest.mark.parametrize("kind", LISTED)
    def test_lists_show_what_a_single_read_shows_or_less(self, bench: Bench, kind: str) -> None:
        """Only pull requests are shown with less; all that is shown is the same."""
        [id_] = bench.create(kind)
        bench.get(bench.path(kind, id_))
        alone = bench.shown(bench.path(kind, id_))

        [listed] = [each for each in bench.shown(f"~{PATHS[kind]}") if "pull_request" not in each]

        assert listed == {name: value for name, value in alone.items() if name in listed}
        lacking = alone.keys() - listed.keys()
        assert ("mergeable" in lacking and "additions" in lacking) if kind == "pull_request" else not lacking

    def test_repository_lists_show_less(self, bench: Bench) -> None:
        """A list has no merge settings."""
        [listed] = bench.shown("/orgs/acme/repos")

        lacking = bench.shown("~").keys() - listed.keys()
        assert {"allow_squash_merge", "network_count", "organization"} <= lacking

    def test_repository_orders(self, bench: Bench) -> None:
        """Organizations list the newest first, people by name."""
        for number, name in enumerate(("b", "a", "c"), start=1):
            bench.do("create", "repository", body={"name": name, "owner": "many"}, at=NOW + number)

        def names(path: str) -> list[str]:
            return [each["name"] for each in bench.shown(path)]

        assert names("/orgs/many/repos") == ["c", "a", "b"]
        assert names("/orgs/many/repos?sort=full_name") == ["a", "b", "c"]
        assert names("/users/many/repos") == ["a", "b", "c"]
        assert names("/orgs/many/repos?sort=updated&direction=asc") == ["b", "a", "c"]

    def test_drafts_are_for_writers(self, bench: Bench) -> None:
        """Whoever is nobody sees no draft."""
        [id_] = bench.create("release", body={"draft": True})

        assert len(bench.shown("~/releases")) == 1
        assert bench.get("~/releases", token=None).json() == []
        assert bench.get(f"~/releases/{id_}", token=None).status_code == 404


class TestStamps:
    """`updated_at`, and what moves without it."""

    @pytest.mark.parametrize("kind", [kind for kind in PATHS if KINDS[kind].stamped])
    def test_stamp_moves_stays_or_goes_back(self, bench: Bench, kind: str) -> None:
        """A change moves the stamp as it is told to, by whole seconds."""
        [id_] = bench.create(kind)
        bench.hands.tick(60.7)
        stamps = []

        for stamp in ("keep", "move", "back"):
            bench.do("change", kind, id_, stamp=stamp)
            stamps.append(bench.shown(bench.path(kind, id_))["updated_at"])

        assert stamps == ["2026-09-21T14:13:20Z", "2026-09-21T14:14:20Z", "2026-09-21T13:14:20Z"]

    def test_labels_have_no_stamp(self, bench: Bench) -> None:
        """A label shows no time at all."""
        bench.create("label")

        assert not [name for name in bench.shown("~/labels")[0] if name.endswith("_at")]

    @pytest.mark.parametrize("op", ["change", "delete"])
    def test_k44_labels_change_under_an_issue(self, bench: Bench, op: str) -> None:
        """K44: a renamed or deleted label shows in its issues, whose stamp stays and which no `since` lists."""
        bench.create("issue", body={"labels": ["bug", "p1"]})
        [label] = [id_ for id_, each in bench.truth("label").items() if each["body"]["name"] == "p1"]
        before = bench.shown("~/issues/1")
        bench.hands.tick(60)

        answer = bench.do(op, "label", label, **({"body": {"name": "p2"}} if op == "change" else {}))

        after = bench.shown("~/issues/1")
        assert [each["name"] for each in after["labels"]] == (["bug", "p2"] if op == "change" else ["bug"])
        assert after["updated_at"] == before["updated_at"]
        assert [each["version"] for each in answer["also"]] == [2] == [bench.truth("issue")["1"]["version"]]
        assert bench.numbers("~/issues?since=2026-09-21T14:14:00Z") == []

    def test_milestones_show_in_their_issues(self, bench: Bench) -> None:
        """What an issue shows of its milestone is as it is now; without it there is none."""
        bench.create("milestone")
        bench.create("issue", body={"milestone": 1})

        counted = bench.shown("~/issues/1")["milestone"]["open_issues"]
        bench.do("delete", "milestone", "1")

        assert counted == 1
        assert bench.shown("~/issues/1")["milestone"] is None

    def test_counters_move_nothing(self, bench: Bench) -> None:
        """A repository and a milestone count issues, and their stamps stay."""
        bench.create("milestone")
        bench.hands.tick(60)
        bench.create("issue", body={"milestone": 1})
        bench.create("pull_request")

        repository, milestone = bench.shown("~"), bench.shown("~/milestones/1")

        assert (repository["open_issues_count"], milestone["open_issues"]) == (2, 1)
        assert repository["updated_at"] == milestone["updated_at"] == "2026-09-21T14:13:20Z"


class TestConditional:
    """ETags and Last-Modified."""

    def test_what_is_known_costs_nothing(self, bench: Bench) -> None:
        """A 304 has no body, keeps the validators, and does not count."""
        bench.create("issue")
        first = bench.get("~/issues/1")

        second = bench.get("~/issues/1", If_None_Match=first.headers["etag"])

        assert (second.status_code, second.content) == (304, b"")
        assert second.headers["etag"] == first.headers["etag"]
        assert second.headers["x-ratelimit-used"] == first.headers["x-ratelimit-used"]

    @pytest.mark.parametrize("path", ["~", "~/issues", "~/pulls", "~/labels", "/orgs/acme/repos", "/user"])
    def test_lists_have_etags_too(self, bench: Bench, path: str) -> None:
        """Whatever is read has one."""
        bench.create("issue")

        etag = bench.get(path).headers["etag"]

        assert bench.get(path, If_None_Match=f'"other", {etag}').status_code == 304

    def test_etag_depends_on_the_token(self, bench: Bench) -> None:
        """What one token has seen means nothing to another."""
        bench.create("issue")
        etag = bench.get("~/issues/1").headers["etag"]

        assert bench.get("~/issues/1", token="ghp_another", If_None_Match=etag).status_code == 200

    def test_change_is_seen(self, bench: Bench) -> None:
        """A change of the content changes the ETag."""
        bench.create("issue")
        etag = bench.get("~/issues/1").headers["etag"]

        bench.do("change", "issue", "1", stamp="keep")

        assert bench.get("~/issues/1", If_None_Match=etag).status_code == 200

    def test_last_modified_is_the_stamp(self, bench: Bench) -> None:
        """A change that leaves the stamp is no change by date."""
        bench.create("issue")
        modified = bench.get("~/issues/1").headers["last-modified"]
        bench.hands.tick(60)

        bench.do("change", "issue", "1", stamp="keep")
        kept = bench.get("~/issues/1", If_Modified_Since=modified)
        bench.do("change", "issue", "1")
        moved = bench.get("~/issues/1", If_Modified_Since=modified)

        assert modified == "Mon, 21 Sep 2026 14:13:20 GMT"
        assert (kept.status_code, moved.status_code) == (304, 200)


class TestVersions:
    """`X-GitHub-Api-Version`."""

    @pytest.mark.parametrize(("version", "status"), [("2022-11-28", 200), ("2021-01-01", 410), ("soon", 400)])
    def test_version_is_checked(self, bench: Bench, version: str, status: int) -> None:
        """A retired version is gone, which says nothing of the object; one that never was is refused."""
        bench.create("issue")

        response = bench.get("~/issues/1", X_GitHub_Api_Version=version)

        assert response.status_code == status
        assert (response.headers.get("x-github-api-version-selected") == version) is (status == 200)

    def test_newer_version_shows_less(self, bench: Bench) -> None:
        """The version of 2026 has no single assignee."""
        bench.create("issue")
        bench.create("pull_request")

        def fields(path: str) -> set[str]:
            return set(bench.get(path, X_GitHub_Api_Version="2026-03-10").json())

        assert bench.shown("~/issues/1").keys() - fields("~/issues/1") == {"assignee"}
        assert bench.shown("~/pulls/2").keys() - fields("~/pulls/2") == {"assignee", "merge_commit_sha"}
        assert "has_downloads" in bench.shown("~").keys() - fields("~")

    def test_caller_must_say_who_it_is(self, bench: Bench) -> None:
        """A call without a user agent is a 403."""
        assert bench.get("~", User_Agent="").status_code == 403


class TestAccess:
    """Tokens, the app, and access that is lost."""

    def test_bad_credentials(self, theatre: Theatre) -> None:
        """A wrong token is a 401, as the SDK tells it."""
        with theatre.plays(Hands(), token=TOKEN) as bench:
            with pytest.raises(github.BadCredentialsException):
                bench.sdk("ghp_wrong").get_user().login  # noqa: B018 - the SDK asks when it is looked at
            assert bench.sdk().get_user().login == "standin"

    def test_nobody_sees_what_is_public(self, bench: Bench) -> None:
        """Without credentials there are 60 calls an hour, public repositories, and no private ones."""
        response = bench.get("~", token=None)

        bench.do("change", "repository", bench.repository, body={"private": True})

        assert (response.status_code, response.headers["x-ratelimit-limit"]) == (200, "60")
        assert bench.get("~", token=None).status_code == 404
        assert bench.get("/user", token=None).status_code == 401
        assert bench.shown("~")["visibility"] == "private"

    @pytest.mark.parametrize(("lost", "message"), [("401", "Bad credentials"), ("403", "Resource not accessible by")])
    def test_access_lost(self, bench: Bench, lost: str, message: str) -> None:
        """A credential that is revoked, or may not any more, is refused for everything."""
        bench.put("faults", {"lost_access": lost})

        answers = [bench.get(path) for path in ("~", "~/issues", "/user")]

        assert {each.status_code for each in answers} == {int(lost)}
        assert all(each.json()["message"].startswith(message) for each in answers)
        assert "retry-after" not in answers[0].headers

    def test_access_lost_as_if_nothing_were_there(self, bench: Bench) -> None:
        """K30: without access a repository and all in it are 404, and whoever asks is still known."""
        bench.create("issue")

        bench.put("faults", {"lost_access": "404"})

        assert [bench.get(path).status_code for path in ("~", "~/issues/1", "/user")] == [404, 404, 200]

    def test_installation_sees_its_owner(self, theatre: Theatre) -> None:
        """The SDK makes tokens as an app, each for what its installation covers, for an hour."""
        with theatre.plays(Hands(time.time()), installations={"1": "acme", "2": "other"}) as bench:
            bench.do("create", "repository", body={"owner": "other", "name": "theirs"})
            token = _minted(bench, "1")

            response = bench.get("/installation/repositories", token=token)

            assert [each["full_name"] for each in response.json()["repositories"]] == ["acme/shop"]
            assert response.json()["total_count"] == 1
            assert bench.get("/repos/other/theirs", token=token).status_code == 404
            assert bench.get("/user", token=token).status_code == 403
            bench.hands.tick(3601)
            assert bench.get("~", token=token).status_code == 401

    def test_app_is_known_by_its_own_token(self, bench: Bench) -> None:
        """An app may look at itself and its installations, and at no repository."""
        token = _jwt(bench)

        answers = {path: bench.get(path, token=token) for path in ("/app", "/app/installations", "~")}

        assert answers["/app"].json()["id"] == APP_ID
        assert [each["id"] for each in answers["/app/installations"].json()] == [int(INSTALLATION)]
        assert answers["~"].status_code == 404
        assert bench.get("/app").status_code == 401

    @pytest.mark.parametrize(
        "claims", [{"iss": "9"}, {"exp": NOW - 1}, {"exp": NOW + 3600}, {"iat": NOW + 600}, {"exp": None}]
    )
    def test_app_token_is_checked(self, bench: Bench, claims: Mapping[str, object]) -> None:
        """Another app's, an expired one, one that lives too long or is not yet born is refused."""
        assert bench.get("/app", token=_jwt(bench, **claims)).status_code == 401

    def test_unknown_installation(self, bench: Bench) -> None:
        """There is no token for what is not installed."""
        headers = {"Authorization": f"Bearer {_jwt(bench)}"}

        assert bench.http.post("/app/installations/9/access_tokens", headers=headers).status_code == 404


def _jwt(bench: Bench, **claims: object) -> str:
    said = {"iss": str(APP_ID), "iat": int(bench.hands.now) - 60, "exp": int(bench.hands.now) + 540, **claims}
    parts = [urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in ({"alg": "RS256"}, said)]
    return ".".join([*parts, "signature"])


def _minted(bench: Bench, installation: str) -> str:
    """Return an installation's token as the SDK gets it, with a key of the app's own."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    auth = github.Auth.AppAuth(APP_ID, key.decode())
    with github.GithubIntegration(auth=auth, base_url=bench.url, retry=None, seconds_between_writes=0) as app:
        return app.get_access_token(int(installation)).token


class TestLimits:
    """The hour's allowance, and the secondary limit."""

    def test_every_answer_tells_what_is_left(self, bench: Bench) -> None:
        """The headers count down, and asking how much is left costs nothing."""
        bench.get("~")
        response = bench.get("~/issues/99")

        headers = {name: response.headers[f"x-ratelimit-{name}"] for name in ("limit", "remaining", "used", "resource")}
        assert headers == {"limit": "5000", "remaining": "4998", "used": "2", "resource": "core"}
        assert bench.shown("/rate_limit")["rate"] == {
            "limit": 5000,
            "used": 2,
            "remaining": 4998,
            "reset": NOW + 3600,
        }

    @pytest.mark.parametrize("status", [403, 429])
    def test_primary_limit(self, bench: Bench, status: int) -> None:
        """After the last call of the hour there is none until it ends; others have theirs."""
        bench.put("habits", {"limit": 2, "limit_status": status})
        bench.get("~")
        bench.get("~")

        refused = bench.get("~")

        assert refused.status_code == status
        assert refused.headers["x-ratelimit-remaining"] == "0"
        assert refused.headers["x-ratelimit-reset"] == str(NOW + 3600)
        assert "retry-after" not in refused.headers
        assert "API rate limit exceeded" in refused.json()["message"]
        assert bench.get("~", token="ghp_another").status_code == 200
        bench.hands.tick(3600)
        assert bench.get("~").status_code == 200

    def test_sdk_knows_the_primary_limit(self, bench: Bench) -> None:
        """The SDK tells it from a lack of permission."""
        bench.put("habits", {"limit": 0})

        with pytest.raises(github.RateLimitExceededException):
            bench.shop()

    @pytest.mark.parametrize(("retry_after", "status"), [(7, 403), (None, 403), (7, 429), (None, 429)])
    def test_k52_secondary_limit(self, bench: Bench, retry_after: int | None, status: int) -> None:
        """K52: too fast is a 403 or 429 that tells how long to wait, or only what it is."""
        bench.put("habits", {"retry_after": retry_after, "limit_status": status})
        bench.put("limits", {"every": 1})
        bench.get("~")

        refused = bench.get("~")

        assert refused.status_code == status
        assert refused.headers.get("retry-after") == (None if retry_after is None else str(retry_after))
        assert "secondary rate limit" in refused.json()["message"]
        assert refused.headers.get("x-ratelimit-remaining") is None
        bench.hands.tick(1)
        assert bench.get("~").status_code == 200

    @pytest.mark.parametrize("status", ["403", "404", "410", "422", "429", "451", "500", "502", "503"])
    def test_faults_answer_instead(self, bench: Bench, status: str) -> None:
        """Each status is answered with a body of GitHub's shape; only 429 says to wait."""
        bench.put("faults", {"status": {status: 1}})

        response = bench.get("~")

        assert response.status_code == int(status)
        assert response.json().keys() == {"message", "documentation_url", "status"}
        assert ("retry-after" in response.headers) is (status == "429")

    def test_stale_reads(self, bench: Bench) -> None:
        """A read may show what was a while ago, or nothing if there was nothing."""
        bench.create("issue")
        bench.hands.tick(60)
        bench.do("change", "issue", "1")
        bench.create("issue")

        bench.put("faults", {"stale_reads": 1, "stale_for": 30})

        assert bench.shown("~/issues/1")["body"].endswith(" v1")
        assert bench.numbers("~/issues") == [1]
        assert bench.get("~/issues/2").status_code == 404
        assert bench.shown("~")["open_issues_count"] == 1


class TestWebhooks:
    """What is sent, once each."""

    def test_signature_is_as_published(self) -> None:
        """GitHub's own example comes out."""
        signed = signatures(b"Hello, World!", ("It's a Secret to Everybody", "old"))

        expected = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"
        assert signed["X-Hub-Signature-256"] == expected
        assert signed["X-Hub-Signature"].startswith("sha1=")
        assert signatures(b"Hello, World!", ()) == {}

    def test_delivery(self, bench: Bench, receiver: Receiver) -> None:
        """A delivery has the headers that GitHub's have, signs its raw bytes, and holds the object as it is read."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET, "id": "31"})

        answer = bench.do("create", "label")

        bench.flush()
        [(headers, body)] = receiver.arrived
        told = {name: headers[f"x-github-{name}"] for name in ("event", "delivery", "hook-id")}
        assert told == {"event": "label", "delivery": answer["events"][0], "hook-id": "31"}
        assert headers["x-hub-signature-256"] == f"sha256={hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}"
        assert headers["content-type"] == "application/json"
        assert headers["user-agent"].startswith("GitHub-Hookshot/")
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", headers["x-github-delivery"])
        payload = receiver.payload()
        assert payload["label"] == bench.shown("~/labels/label%201")
        assert payload["repository"]["id"] == int(bench.repository)
        assert (payload["organization"]["login"], payload["sender"]["login"]) == ("acme", "standin")

    @pytest.mark.parametrize(
        ("kind", "body", "told"),
        [
            ("issue", {}, ["issues.edited"]),
            ("issue", {"state": "closed"}, ["issues.closed"]),
            ("issue", {"labels": ["new"]}, ["issues.labeled", "label.created"]),
            ("issue", {"assignees": ["ann"]}, ["issues.assigned"]),
            ("issue", {"locked": True}, ["issues.locked"]),
            ("pull_request", {}, ["pull_request.edited"]),
            ("pull_request", {"head_sha": "f00"}, ["pull_request.synchronize"]),
            ("pull_request", {"merged": True}, ["pull_request.closed"]),
            ("pull_request", {"draft": True}, ["pull_request.converted_to_draft"]),
            ("issue_comment", {}, ["issue_comment.edited"]),
            ("release", {}, ["release.edited"]),
            ("release", {"draft": True}, ["release.unpublished"]),
            ("label", {}, ["label.edited"]),
            ("milestone", {"state": "closed"}, ["milestone.closed"]),
            ("repository", {}, ["repository.edited"]),
            ("repository", {"name": "store"}, ["repository.renamed"]),
            ("repository", {"owner": "other"}, ["repository.transferred"]),
            ("repository", {"archived": True}, ["repository.archived"]),
            ("repository", {"private": True}, ["repository.privatized"]),
        ],
    )
    def test_changes_are_told(
        self, bench: Bench, receiver: Receiver, kind: str, body: Mapping[str, object], told: list[str]
    ) -> None:
        """Each change is told by the action that GitHub has for it."""
        [id_] = bench.create(kind)
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})

        bench.do("change", kind, id_, body=body)

        bench.flush()
        assert receiver.events() == told

    @pytest.mark.parametrize(
        ("kind", "born", "gone"),
        [
            ("issue", ["issues.opened"], ["issues.deleted"]),
            ("issue_comment", ["issue_comment.created"], ["issue_comment.deleted"]),
            ("release", ["release.created", "release.published", "release.released"], ["release.deleted"]),
            ("label", ["label.created"], ["label.deleted"]),
            ("milestone", ["milestone.created"], ["milestone.deleted"]),
            ("repository", ["repository.created"], ["repository.deleted"]),
        ],
    )
    def test_coming_and_going_are_told(
        self, bench: Bench, receiver: Receiver, kind: str, born: list[str], gone: list[str]
    ) -> None:
        """A release tells of itself thrice."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})

        [id_] = bench.create(kind)
        bench.do("delete", kind, id_)

        bench.flush()
        assert receiver.events() == sorted([*born, *gone])

    def test_transfer_is_told_in_both_places(self, bench: Bench, receiver: Receiver) -> None:
        """The old repository tells that the issue left, the new one that it came, each with the other's."""
        bench.create("issue")
        other = bench.do("create", "repository", body={"name": "other"})["id"]
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})

        bench.http.post("/_control/transfer", json={"scope": bench.repository, "id": "1", "to": other})

        bench.flush()
        payloads = {each["action"]: each for each in (json.loads(body) for _, body in receiver.arrived)}
        assert payloads["transferred"]["changes"]["new_repository"]["id"] == int(other)
        assert payloads["opened"]["changes"]["old_issue"]["number"] == 1
        assert payloads["opened"]["repository"]["id"] == int(other)

    def test_webhooks_show_less(self, bench: Bench, receiver: Receiver) -> None:
        """The issue in a payload does not say who closed it, and a pull request not whether it can be merged."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})

        bench.create("issue")
        bench.flush()
        issue = receiver.payload()["issue"]
        bench.create("pull_request")
        bench.flush()

        assert bench.shown("~/issues/1").keys() - issue.keys() == {"closed_by"}
        assert receiver.payload()["pull_request"]["mergeable"] is None
        assert receiver.payload()["number"] == 2

    def test_k06_form(self, bench: Bench, receiver: Receiver) -> None:
        """K06: a form's signature is over the raw form, whose payload holds `+` and `%2B`."""
        bench.put("habits", {"content_type": "form"})
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})

        bench.create("label", body={"name": "a + b"})

        bench.flush()
        [(headers, body)] = receiver.arrived
        assert headers["content-type"] == "application/x-www-form-urlencoded"
        assert headers["x-hub-signature-256"] == f"sha256={hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()}"
        assert b"a+%2B+b" in body
        assert json.loads(parse_qs(body.decode())["payload"][0])["label"]["name"] == "a + b"

    def test_nothing_is_sent_again_by_itself(self, bench: Bench, receiver: Receiver) -> None:
        """A delivery that failed has failed."""
        receiver.answers = [500]
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})

        bench.create("label")

        bench.flush()
        report = bench.http.get("/_control/deliveries").json()
        assert (len(receiver.arrived), report["failed"], report["pending"]) == (1, 1, 0)

    def test_what_is_not_to_be_sent_is_not(self, bench: Bench, receiver: Receiver) -> None:
        """A change may stay unannounced or undelivered."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})

        quiet = [bench.do("create", "label", announce=False), bench.do("create", "label", deliver=False)]

        bench.flush()
        assert [len(each["events"]) for each in quiet] == [0, 1]
        assert receiver.arrived == []

    def test_hooks_hear_what_they_listen_to(self, bench: Bench, receiver: Receiver) -> None:
        """A hook hears of its repository and its events only."""
        other = bench.do("create", "repository", body={"name": "other"})["id"]
        hook = {"url": receiver.url, "secret": SECRET}
        bench.put(
            "webhooks",
            [{**hook, "scope": other}, {**hook, "events": ["milestone"]}, {**hook, "enabled": False}],
        )

        bench.create("label")
        bench.create("label", scope=other)
        bench.create("milestone")

        bench.flush()
        assert receiver.events() == ["label.created", "milestone.created"]

    def test_app_hooks_name_the_installation(self, theatre: Theatre, receiver: Receiver) -> None:
        """What an app is sent names the installation that covers the repository, and the app as its target."""
        with theatre.plays(Hands(), installations={"1": "other", "2": "acme"}) as bench:
            bench.put("webhooks", {"url": receiver.url, "secret": SECRET, "id": "31"})
            bench.put("hooks", {"31": {"target": "integration"}})

            bench.create("label")

            bench.flush()
            [(headers, _)] = receiver.arrived
            assert receiver.payload()["installation"]["id"] == 2
            assert headers["x-github-hook-installation-target-type"] == "integration"
            assert headers["x-github-hook-installation-target-id"] == str(APP_ID)
            [delivery] = bench.get("/app/hook/deliveries", token=_jwt(bench)).json()
            assert delivery["installation_id"] == 2

    def test_too_large_is_not_sent(self, bench: Bench, receiver: Receiver) -> None:
        """K08: a payload beyond GitHub's cap is never delivered; the change is there all the same."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET})
        body = {"body": "x" * LARGEST}

        answer = bench.sandbox.operate(
            Operation(deed=Deed.CREATE, kind="issue", scope=bench.repository, body=body, announce=True)
        )

        bench.flush()
        assert (receiver.arrived, answer["version"]) == ([], 1)

    def test_faults_strike_deliveries(self, bench: Bench, receiver: Receiver) -> None:
        """What is dropped is remembered nowhere, and what is sent twice has one GUID."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET, "id": "31", "scope": bench.repository})
        bench.put("faults", {"drop": 1})
        bench.create("label")
        bench.put("faults", {"duplicate": 1})

        bench.create("label")

        bench.flush()
        assert len({headers["x-github-delivery"] for headers, _ in receiver.arrived}) == 1
        assert len(receiver.arrived) == 2
        assert len(bench.shown("~/hooks/31/deliveries")) == 1


class TestHooks:
    """The API for hooks, through the real SDK."""

    def test_new_hook_is_pinged(self, bench: Bench, receiver: Receiver) -> None:
        """Making a hook sends a ping with the hook in it."""
        config = {"url": receiver.url, "content_type": "json", "secret": SECRET}

        hook = bench.shop().create_hook("web", config, ["issues"])

        bench.flush()
        [(headers, _)] = receiver.arrived
        assert (headers["x-github-event"], headers["x-github-hook-id"]) == ("ping", str(hook.id))
        assert receiver.payload()["hook_id"] == hook.id
        assert receiver.payload()["hook"]["config"]["secret"] == "********"
        assert bench.shop().get_hook(hook.id).events == ["issues"]

    def test_k07_ping_of_an_organization_names_no_repository(self, bench: Bench, receiver: Receiver) -> None:
        """K07: an organization's hook works from the start, and its ping has no repository."""
        config = {"url": receiver.url, "content_type": "json", "secret": SECRET}

        bench.sdk().get_organization("acme").create_hook("web", config, ["*"])
        bench.flush()
        ping = receiver.payload()
        bench.create("label")
        bench.flush()

        assert "repository" not in ping
        assert ping["hook"]["type"] == "Organization"
        assert receiver.events()[0] == "label.created"
        assert receiver.arrived[-1][0]["x-github-hook-installation-target-type"] == "organization"

    def test_hooks_are_edited_and_removed(self, bench: Bench, receiver: Receiver) -> None:
        """A hook hears what it is told to hear, forms by default, and nothing once it is gone."""
        hook = bench.shop().create_hook("web", {"url": receiver.url}, ["issues"])
        bench.flush()
        form = receiver.arrived[0][0]["content-type"]

        hook.edit("web", {"url": receiver.url, "content_type": "json"}, add_events=["label"])
        bench.create("label")
        bench.flush()
        hook.delete()
        bench.create("label")
        bench.flush()

        assert form == "application/x-www-form-urlencoded"
        assert [headers["x-github-event"] for headers, _ in receiver.arrived] == ["ping", "label"]
        assert list(bench.shop().get_hooks()) == []

    def test_k16_redelivery_keeps_the_guid(self, bench: Bench, receiver: Receiver) -> None:
        """K16: what is sent again has the same GUID and the same bytes, and another number in the log."""
        receiver.answers = [500]
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET, "id": "31", "scope": bench.repository})
        bench.create("label")
        bench.flush()
        shop, sdk = bench.shop(), bench.sdk()
        [failed] = shop.get_hook_deliveries(31)

        path = f"/repos/acme/shop/hooks/31/deliveries/{failed.id}/attempts"
        sdk.requester.requestJsonAndCheck("POST", path)

        bench.flush()
        again, first = shop.get_hook_deliveries(31)
        assert (first.status_code, first.redelivery, again.status, again.redelivery) == (500, False, "OK", True)
        assert again.guid == first.guid
        assert again.id != first.id
        assert receiver.arrived[0][1] == receiver.arrived[1][1]
        assert receiver.arrived[0][0]["x-github-delivery"] == receiver.arrived[1][0]["x-github-delivery"]

    def test_delivery_can_be_looked_up(self, bench: Bench, receiver: Receiver) -> None:
        """One delivery is shown with what was sent."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET, "id": "31", "scope": bench.repository})
        bench.create("label")
        bench.flush()
        [brief] = bench.shop().get_hook_deliveries(31)

        whole = bench.shop().get_hook_delivery(31, brief.id or 0)

        assert (whole.event, whole.action, whole.repository_id) == ("label", "created", int(bench.repository))
        assert whole.request is not None
        assert whole.request.payload == receiver.payload()
        assert whole.request.headers is not None
        assert whole.request.headers["X-GitHub-Delivery"] == whole.guid

    def test_deliveries_are_paged_and_filtered(self, bench: Bench, receiver: Receiver) -> None:
        """Pages go by cursor, newest first; failures can be asked for alone."""
        receiver.answers = [200, 500, 200, 404, 200]
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET, "id": "31", "scope": bench.repository})
        for _ in range(5):
            bench.create("label")
            bench.flush()

        pages, path = [], "~/hooks/31/deliveries?per_page=2"
        while path:
            response = bench.get(path)
            pages.append([each["status_code"] for each in response.json()])
            path = links(response).get("next", "")

        assert pages == [[200, 404], [200, 500], [200]]
        failures = bench.shown("~/hooks/31/deliveries?status=failure")
        assert [each["status"] for each in failures] == ["Invalid HTTP Response: 404", "Invalid HTTP Response: 500"]

    def test_deliveries_are_kept_three_days(self, bench: Bench, receiver: Receiver) -> None:
        """Older ones can neither be seen nor sent again."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET, "id": "31", "scope": bench.repository})
        bench.create("label")
        bench.flush()
        [delivery] = bench.shown("~/hooks/31/deliveries")

        bench.hands.tick(HISTORY + 1)

        assert bench.shown("~/hooks/31/deliveries") == []
        attempt = f"/repositories/{bench.repository}/hooks/31/deliveries/{delivery['id']}/attempts"
        assert bench.http.post(attempt, headers={"Authorization": f"token {TOKEN}"}).status_code == 404

    def test_resend_by_hand(self, bench: Bench, receiver: Receiver) -> None:
        """The control route sends an event again by its GUID, or by the id that we give it."""
        bench.put("webhooks", {"url": receiver.url, "secret": SECRET, "id": "31"})
        [guid] = bench.do("create", "label")["events"]

        answers = [
            bench.http.post("/_control/resend", json={"event_id": each}) for each in (guid, f"{guid}/31", "none")
        ]

        bench.flush()
        assert [each.status_code for each in answers] == [200, 200, 400]
        assert {headers["x-github-delivery"] for headers, _ in receiver.arrived} == {guid}
        assert len(receiver.arrived) == 3


class TestControl:
    """What the control routes take and refuse."""

    @pytest.mark.parametrize(
        "asked",
        [
            {"op": "create", "kind": "wiki"},
            {"op": "create", "kind": "issue", "scope": "9"},
            {"op": "create", "kind": "issue", "id": "x"},
            {"op": "create", "kind": "issue", "body": {"number": 7}},
            {"op": "create", "kind": "issue", "body": {"state": "shut"}},
            {"op": "create", "kind": "issue", "body": {"title": 7}},
            {"op": "create", "kind": "issue", "body": {"milestone": 7}},
            {"op": "create", "kind": "issue", "body": {"updated_at": "2026-09-21T14:13:20"}},
            {"op": "create", "kind": "issue", "body": {"labels": 7}},
            {"op": "create", "kind": "issue_comment", "body": {"issue": 99}},
            {"op": "create", "kind": "repository", "scope": "9"},
            {"op": "create", "kind": "repository", "body": {"name": "a/b"}},
            {"op": "change", "kind": "issue", "id": "99"},
            {"op": "recreate", "kind": "label", "id": "99"},
        ],
    )
    def test_nonsense_is_refused(self, bench: Bench, asked: Mapping[str, object]) -> None:
        """What GitHub would not have is a 400 with the reason, and changes nothing."""
        before = bench.http.get("/_control/objects").json()

        response = bench.http.post("/_control/objects", json=asked)

        assert response.status_code == 400
        assert response.json()["error"]
        assert bench.http.get("/_control/objects").json() == before

    @pytest.mark.parametrize(
        ("path", "asked"),
        [
            ("habits", {"limit": -1}),
            ("habits", {"limit": True}),
            ("habits", {"limit_status": 500}),
            ("habits", {"shifts": ["explode"]}),
            ("habits", {"unknown": 1}),
            ("habits", []),
            ("hooks", {"31": {"content_type": "xml"}}),
            ("hooks", {"31": {"target": "moon"}}),
            ("hooks", ["31"]),
        ],
    )
    def test_habits_are_checked(self, bench: Bench, path: str, asked: object) -> None:
        """A habit that makes no sense is refused."""
        assert bench.http.put(f"/_control/{path}", json=asked).status_code == 400

    def test_habits_go_back(self, bench: Bench) -> None:
        """What is not named is as at first."""
        first = bench.http.get("/_control/habits").json()
        bench.put("habits", {"limit": 7, "hidden": [bench.repository]})

        bench.put("habits", {})

        assert bench.http.get("/_control/habits").json() == first
        assert bench.get("~").headers["x-ratelimit-limit"] == "5000"

    def test_fields_can_be_set(self, bench: Bench) -> None:
        """People, times and whatever else a body shows can be set as it shows them."""
        body = {"user": "ann", "assignees": ["bob"], "created_at": "2026-01-02T03:04:05Z", "title": "Broken"}

        bench.create("issue", body=body)

        issue = bench.shown("~/issues/1")
        assert (issue["user"]["login"], issue["assignee"]["login"]) == ("ann", "bob")
        assert (issue["created_at"], issue["title"]) == ("2026-01-02T03:04:05Z", "Broken")

    def test_something_goes_somewhere(self) -> None:
        """Without any repository, an object without a scope gets one made for it."""
        sandbox = GitHubSandbox()

        answer = sandbox.operate(Operation(deed=Deed.CREATE, kind="issue"))

        assert [each["id"] for each in sandbox.truth(kind="repository")] == [answer["scope"]]

    def test_repositories_can_be_there_from_the_start(self) -> None:
        """A stand-in may begin with repositories that nobody was told of."""
        sandbox = GitHubSandbox(repositories=["acme/shop", "acme/store"])

        names = [each["body"]["full_name"] for each in sandbox.truth(kind="repository")]
        assert names == ["acme/shop", "acme/store"]

    def test_same_seed_says_the_same(self) -> None:
        """Two stand-ins of one seed and one clock cannot be told apart."""

        def told() -> object:
            sandbox = GitHubSandbox(3, clock=Hands().clock())
            answers = [sandbox.operate(Operation(deed=Deed.CREATE, kind=kind)) for kind in KINDS]
            return answers, sandbox.truth()

        assert told() == told()

    def test_calls_are_counted(self, bench: Bench) -> None:
        """Each call is noted by what it asks for, and control requests are not."""
        bench.get("~/labels/a%2Fb")
        bench.get("/repos/acme/shop/issues")

        calls = bench.http.get("/_control/calls").json()

        assert calls["operations"] == {
            "GET /repos/{owner}/{repo}/issues": {"200": 1},
            "GET /repositories/{repository}/labels/{name}": {"404": 1},
        }

    def test_stand_in_by_name(self) -> None:
        """The stand-in is found by its provider's name."""
        assert "github" in providers()
        assert isinstance(stand_in("github", seed=3), GitHubSandbox)
