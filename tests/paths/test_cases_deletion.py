"""Failures met in the field, by their numbers: what is gone, what only seems so, and what has another name by now."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from reconciler import content
from reconciler.cli import main
from tests.adapters.scripted import Said, Scripted
from tests.paths.cases import EVERY, FIRST, ago, at

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from reconciler.model import Page
    from tests.adapters.scripted import Asked
    from tests.paths.cases import Case, MakeCase
    from tests.paths.sweeping import Swept

DAY = 24 * 3600
BIG = 9_007_199_254_740_993
DELETABLE = {
    "stripe": ["customer", "product"],
    "github": ["issue", "issue_comment", "release", "label", "milestone"],
    "shopify": ["order", "product", "product_variant", "customer"],
}
LASTING = {"stripe": [], "github": ["pull_request"], "shopify": ["refund"]}
UNSTAMPED = {"customer of stripe", "label of github"}


def loaded(case: Case, kind: str, count: int = 1, **more: Any) -> list[str]:
    """Create objects that the first full run brings into the mirror, and return their ids."""
    ids = [case.act("create", kind, deliver=False, **{"at": ago(3000), **more}) for _ in range(count)]
    case.sweep(kind, full=True)
    return ids


def standing(case: Case, kind: str) -> int:
    """Return how many rows of a kind are alive."""
    [(count,)] = case.rows("SELECT count(*) FROM objects WHERE kind = %s AND deleted_at IS NULL", kind)
    return int(count)


@pytest.mark.parametrize("provider", EVERY)
def test_k25_a_tombstone_keeps_what_was_known(case_of: MakeCase, provider: str) -> None:
    """Told by a delivery or found by a run, an object that is gone leaves a tombstone with its last body and stamp."""
    case = case_of(provider)
    for kind in DELETABLE[provider]:
        told, found = loaded(case, kind, 2)
        stamps = [case.stamp(kind, id_) for id_ in (told, found)]
        case.act("delete", kind, told)
        case.act("delete", kind, found, deliver=False)

        case.quiet()
        case.sweep(kind, full=True)

        assert [case.stands(kind, id_) for id_ in (told, found)] == [False, False]
        assert all(str(case.body(kind, id_)["id"]) for id_ in (told, found))
        if f"{kind} of {provider}" not in UNSTAMPED:
            assert [case.stamp(kind, id_) for id_ in (told, found)] == stamps


@pytest.mark.parametrize("provider", EVERY)
def test_k25_asked_for_by_hand(case_of: MakeCase, monkeypatch: pytest.MonkeyPatch, provider: str) -> None:
    """What a person asks for on the command line, and is gone, is a tombstone, too, with its last body."""
    case, kind = case_of(provider), DELETABLE[provider][0]
    [made] = loaded(case, kind)
    before = case.body(kind, made)
    case.act("delete", kind, made, deliver=False)
    for name, value in case.environment.items():
        monkeypatch.setenv(name, value)

    code = main(["refetch", case.source, kind, made, "--config", str(case.file)])

    assert code == 0
    assert (case.stands(kind, made), case.body(kind, made)) == (False, before)
    assert case.history(kind, made) == ["loaded", "deleted"]


CALLED_DELETED: Mapping[str, list[tuple[str, dict[str, Any], dict[str, str]]]] = {
    "stripe": [
        ("customer", {"type": "customer.deleted"}, {}),
        ("subscription", {"type": "customer.subscription.deleted"}, {}),
    ],
    "github": [
        ("issue", {"action": "deleted", "issue": {"number": 0}}, {"event": "issues"}),
        ("issue_comment", {"action": "deleted", "comment": {"id": 0}}, {"event": "issue_comment"}),
        ("label", {"action": "deleted", "label": {"id": 0, "name": "x"}}, {"event": "label"}),
    ],
    "shopify": [
        ("order", {"id": 0}, {"topic": "orders/delete"}),
        ("product", {"id": 0}, {"topic": "products/delete"}),
        ("customer", {"id": 0}, {"topic": "customers/delete"}),
    ],
}


@pytest.mark.parametrize("provider", EVERY)
def test_k26_deleted_says_the_event(case_of: MakeCase, provider: str) -> None:
    """The live read decides, not the name of the event: what still exists stays, and is no tombstone."""
    case = case_of(provider)
    for kind, body, headers in CALLED_DELETED[provider]:
        [made] = loaded(case, kind)
        told = content.parse(content.dumps(body).replace(":0", f":{made}"))
        told |= {"repository": {"id": int(case.scope), "full_name": "acme/shop"}} if case.scope else {}
        if provider == "stripe":
            told |= {"id": f"evt_{made}", "object": "event", "data": {"object": {"id": made, "object": kind}}}

        answer = case.say(told, **headers)
        case.quiet()

        assert (answer.status_code, set(case.outcomes())) == (200, {"done"})
        assert case.stands(kind, made)
        assert case.history(kind, made) == ["loaded"]


def test_k26_a_subscription_that_ended(case_of: MakeCase) -> None:
    """A canceled subscription is told of as deleted and is still there: its row shows it canceled, and stays."""
    case = case_of("stripe")
    told, found = loaded(case, "subscription", 2)

    case.act("delete", "subscription", told)
    case.act("delete", "subscription", found, deliver=False)
    case.quiet()
    case.sweep("subscription", full=True)

    assert case.rows("SELECT event_type, outcome FROM webhook_events") == [("customer.subscription.deleted", "done")]
    assert [case.body("subscription", id_)["status"] for id_ in (told, found)] == ["canceled"] * 2
    assert [case.history("subscription", id_) for id_ in (told, found)] == [["loaded", "updated"]] * 2
    assert case.wrong("subscription") == []


def test_k27_deletions_carry_almost_nothing(case_of: MakeCase) -> None:
    """An id alone makes a tombstone, however long it is, and though our row's stamp is an hour ahead of the receipt."""
    case = case_of("shopify")
    for kind in ("order", "product", "customer"):
        by_id, by_gid = (case.act("create", kind, str(BIG + n), at=ago(-3600), deliver=False) for n in (0, 2))
        case.sweep(kind, full=True)
        stamps = [case.stamp(kind, id_) for id_ in (by_id, by_gid)]
        for id_ in (by_id, by_gid):
            case.act("delete", kind, id_, deliver=False)
        # Some senders round long numbers: the gid beside it is exact.
        rounded = {"id": BIG + 1, "admin_graphql_api_id": f"gid://shopify/{kind.title()}/{by_gid}"}

        answers = [case.say(body, topic=f"{kind}s/delete").status_code for body in ({"id": BIG}, rounded)]
        case.quiet()

        assert (answers, set(case.outcomes())) == ([200, 200], {"done"})
        assert [case.history(kind, id_) for id_ in (by_id, by_gid)] == [["loaded", "deleted"]] * 2
        assert [case.stamp(kind, id_) for id_ in (by_id, by_gid)] == stamps
        assert min(stamps) > at(ago(-3000))


@pytest.mark.parametrize(("provider", "kind"), [("github", "issue"), ("github", "label"), ("shopify", "product")])
def test_k28_created_and_deleted_before_we_look(case_of: MakeCase, provider: str, kind: str) -> None:
    """Both events are done after a bounded number of reads, and others are not held up."""
    case = case_of(provider, more=f'kinds = ["{kind}"]')
    made, created = case.withheld("create", kind)
    _, deleted = case.withheld("delete", kind, made)
    other, beside = case.withheld("create", kind)

    case.post(*created, *beside)
    case.quiet()
    case.post(*deleted)
    case.quiet()

    assert set(case.outcomes()) == {"done"}
    assert not case.stands(kind, made)
    assert case.stands(kind, other)
    assert len(case.calls()) <= 14


@pytest.mark.parametrize("provider", EVERY)
def test_k29_an_old_event_after_the_deletion(case_of: MakeCase, provider: str) -> None:
    """What was told before the deletion and comes after it does not bring the object back."""
    case = case_of(provider)
    for kind in DELETABLE[provider]:
        made, created = case.withheld("create", kind, at=ago(300))
        _, changed = case.withheld("change", kind, made, at=ago(200))
        _, deleted = case.withheld("delete", kind, made, at=ago(100))

        for sent in (changed, deleted, changed, created):
            case.post(*sent)
            case.quiet()

        assert not case.stands(kind, made)
        assert "restored" not in case.history(kind, made)
        assert set(case.outcomes()) == {"done"}


@pytest.mark.parametrize(
    ("provider", "kind"), [("github", "issue"), ("github", "label"), ("shopify", "order"), ("stripe", "product")]
)
def test_k29_a_page_of_before_the_deletion(case_of: MakeCase, provider: str, kind: str) -> None:
    """A page that was listed before the deletion and is written after it does not bring the object back."""
    case = case_of(provider)
    [made] = loaded(case, kind)

    told = swept_late(case, kind, made)
    case.quiet()

    assert told.state == "complete"
    assert case.stands(kind, made) is False
    assert case.history(kind, made) == ["loaded", "deleted"]


def swept_late(case: Case, kind: str, made: str) -> Swept:
    """Sweep a kind, an object of which goes, and is read to be gone, after it was listed and before that is written."""
    behind: Any = vars(case.adapter)["_adapter"]
    crawl = behind.crawl

    def crawled(name: str, scope: str) -> Iterator[Page]:
        for page in crawl(name, scope):
            if case.stands(kind, made):
                case.act("delete", kind, made, announce=False, deliver=False)
                case.want(kind, made)
                case.work(lambda: case.stands(kind, made) is False)
            yield page

    behind.crawl = crawled
    return case.sweep(kind, full=True)


# --- lost access is no absence ---


def test_k30_a_repository_that_we_no_longer_see(case_of: MakeCase) -> None:
    """An issue that is 404 with its repository is no tombstone: the scope is paused, loudly, and taken up again."""
    case = case_of("github")
    ids = loaded(case, "issue", 3)
    comments = loaded(case, "issue_comment", 2)
    case.control("PUT", "/habits", {"hidden": [case.scope]})
    case.want("issue", *ids)
    case.want("issue_comment", *comments)

    for _ in range(12):
        case.hasten()
        case.program.drain.turn()
    told = case.sweep("issue", "issue_comment", "repository", full=True)
    lost = (standing(case, "issue"), standing(case, "issue_comment"), case.pauses())
    case.control("PUT", "/habits", {})
    case.hasten()
    case.quiet()

    assert lost == (3, 2, [(case.scope, "access_lost")])
    assert told.state == "incomplete"
    assert case.logged("source.paused")
    assert case.pauses() == []
    assert case.wrong("issue", "issue_comment") == []


@pytest.mark.parametrize("provider", EVERY)
def test_k30_a_credential_that_is_lost(case_of: MakeCase, provider: str) -> None:
    """While the credential opens nothing, or another account, no row goes: not by deliveries, not by runs."""
    case, kind = case_of(provider), FIRST[provider]
    other = case.act("create", kind, deliver=False)
    for lost in ("401", "403", "404"):
        [made] = loaded(case, kind)
        case.act("delete", kind, made, deliver=False)
        case.faults(lost_access=lost)
        case.want(kind, made, other)

        for _ in range(8):
            case.hasten()
            case.program.drain.turn()
        told = case.sweep(kind, full=True)
        kept, paused = standing(case, kind), case.pauses()
        case.faults()
        case.hasten()
        case.quiet()

        assert (kept, told.state) == (2, "incomplete")
        # To a credential that opens another account its user answers still, and the repository no longer does.
        assert (case.scope if (provider, lost) == ("github", "404") else "", "access_lost") in paused
        assert case.pauses() == []
        assert case.wrong(kind) == []


def test_k30_a_shop_that_is_closed(case_of: MakeCase) -> None:
    """A shop that answers nobody loses no row, whatever its status is."""
    case = case_of("shopify")
    made = loaded(case, "order", 2)
    for state in ("frozen", "forbidden", "gone", "locked"):
        case.control("PUT", "/shop", {"state": state})
        case.want("order", *made)

        for _ in range(6):
            case.hasten()
            case.program.drain.turn()
        told = case.sweep("order", full=True)
        lost = case.pauses()
        case.control("PUT", "/shop", {})
        case.hasten()
        case.quiet()

        what = "suspended" if state in {"frozen", "locked"} else "access_lost"
        assert (lost, told.state) == ([("", what)], "incomplete")
        assert (standing(case, "order"), case.pauses()) == (2, [])


def buried(case: Case, kind: str, count: int) -> bool:
    """Say whether so many objects of a kind are given up."""
    return case.rows("SELECT count(*) FROM refetches WHERE kind = %s AND dead_at IS NOT NULL", kind) == [(count,)]


def test_k30_old_orders(case_of: MakeCase) -> None:
    """Without `read_all_orders` an old order is null, and so are its refunds: none of them is called gone."""
    case = case_of("shopify")
    for kind in ("order", "refund"):
        old = [*loaded(case, kind, at=ago(61 * DAY)), *loaded(case, kind, at=ago(200 * DAY))]
        case.control("PUT", "/shop", {"scopes": ["read_orders", "read_customers", "read_products"]})
        case.want(kind, *old)
        case.work(partial(buried, case, kind, len(old)))

        told = case.sweep(kind, full=True)
        case.control("PUT", "/shop", {})

        assert [case.stands(kind, each) for each in old] == [True, True]
        assert told.state == "incomplete"
        assert all("read_all_orders" in error for (error,) in case.rows("SELECT last_error FROM refetches"))


def test_k30_an_old_order_that_was_deleted(case_of: MakeCase) -> None:
    """Where the shop itself says that it deleted the order, its null is believed without that scope too."""
    case = case_of("shopify")
    told, found = loaded(case, "order", 2, at=ago(200 * DAY))
    case.control("PUT", "/shop", {"scopes": ["read_orders", "read_customers", "read_products"]})
    case.act("delete", "order", told)
    case.act("delete", "order", found, deliver=False)

    case.quiet()
    by_delivery = (case.stands("order", told), case.stands("order", found))
    case.sweep("order")

    assert by_delivery == (False, True)
    assert case.stands("order", found) is False


@pytest.mark.parametrize("provider", EVERY)
def test_k30_gone_while_its_parent_is_there(case_of: MakeCase, provider: str) -> None:
    """With repository, shop or account readable, what is gone becomes a tombstone."""
    case = case_of(provider)
    for kind in DELETABLE[provider]:
        [made] = loaded(case, kind)
        case.act("delete", kind, made, deliver=False)
        case.want(kind, made)

        case.quiet()

        assert case.stands(kind, made) is False
        assert case.wrong(kind) == []


# --- 410 ---


def test_k31_a_deleted_issue(case_of: MakeCase) -> None:
    """A 410 that says so is a tombstone at once, with one read."""
    case = case_of("github")
    [made] = loaded(case, "issue")
    case.act("delete", "issue", made, deliver=False)
    before = len(case.calls())
    case.want("issue", made)

    assert case.program.drain.turn()

    assert case.stands("issue", made) is False
    assert len(case.calls()) == before + 1


def test_k31_issues_that_are_switched_off(case_of: MakeCase) -> None:
    """With its issues switched off a repository answers 410 for each of them and for their list: none is deleted."""
    case = case_of("github")
    ids = loaded(case, "issue", 5)
    case.act("change", "repository", case.scope, body={"has_issues": False}, deliver=False)
    case.want("issue", *ids[:2])

    for _ in range(4):
        case.hasten()
        case.program.drain.turn()
    case.sweep("issue", full=True)
    off = standing(case, "issue")
    case.act("change", "repository", case.scope, body={"has_issues": True}, deliver=False)
    told = case.sweep("issue", full=True)

    assert off == 5
    assert told.state == "complete"
    assert case.wrong("issue") == []


def test_k31_other_410s(case_of: MakeCase) -> None:
    """A 410 about anything but this object deletes nothing: neither by a delivery nor by a run."""
    words = iter(["This API version is no longer supported", "Issues are disabled for this repo", ""] * 20)
    with closing(Scripted(gone(words))) as github:
        case = case_of("github", api_base=github.url)
        case.scope = "10"
        for number in (7, 8, 9):
            issue = {"number": number, "updated_at": "2026-11-30T12:00:00Z"}
            case.say({"action": "edited", "issue": issue, "repository": {"id": 10, "full_name": "acme/shop"}})
        case.work(lambda: case.outcomes() == ["dead"] * 3)

        told = case.sweep("issue")

        assert told.state == "incomplete"
        assert case.rows("SELECT count(*) FROM objects") == [(0,)]
        assert case.watermark("issue") is None


def gone(words: Iterator[str]) -> Callable[[Asked], Said]:
    """Return a GitHub that answers 410 for all that is in its one repository."""
    shop = {"id": 10, "name": "shop", "full_name": "acme/shop", "has_issues": True}

    def answer(asked: Asked) -> Said:
        known = {"/user": {"id": 1}, "/repos/acme/shop": shop, "/repositories/10": shop}
        return Said(known[asked.path]) if asked.path in known else Said({"message": next(words)}, 410)

    return answer


# --- names ---


@pytest.mark.parametrize("ours", ["both", "one"])
def test_k32_a_name_that_is_used_again(case_of: MakeCase, ours: str) -> None:
    """A renamed repository and the new one of its old name are two, each with its own row and issues."""
    organizations = 'organizations = ["acme"]\n' if ours == "both" else ""
    case = case_of("github", more=f'{organizations}kinds = ["repository", "issue"]')
    old = case.scope
    before = case.act("create", "issue")
    case.sweep()
    case.act("change", "repository", old, body={"name": "store"})
    new = case.act("create", "repository", body={"owner": "acme", "name": "shop"})
    after = case.act("create", "issue")
    elsewhere = case.act("create", "issue", scope=new)

    case.quiet()
    told = case.sweep(full=True)

    names = {old: "acme/store", new: "acme/shop"}
    issues = {(old, before), (old, after), (new, elsewhere)}
    kept = {old, new} if ours == "both" else {old}
    assert told.state == "complete"
    assert dict(case.rows("SELECT id, body ->> 'full_name' FROM objects WHERE kind = 'repository'")) == {
        each: names[each] for each in kept
    }
    assert set(case.rows("SELECT scope, id FROM objects WHERE kind = 'issue' AND deleted_at IS NULL")) == {
        each for each in issues if each[0] in kept
    }


def test_k32_a_repository_with_another_owner(case_of: MakeCase) -> None:
    """Transferred to another owner a repository keeps its number, its row, and its issues."""
    case = case_of("github", more='kinds = ["repository", "issue"]')
    made = case.act("create", "issue")
    case.act("change", "repository", case.scope)
    case.quiet()

    case.act("change", "repository", case.scope, body={"owner": "beta"})
    case.act("change", "issue", made)
    case.quiet()
    told = case.sweep(full=True)

    assert told.state == "complete"
    assert case.rows("SELECT id, body ->> 'full_name' FROM objects WHERE kind = 'repository'") == [
        (case.scope, "beta/shop")
    ]
    assert case.wrong("repository", "issue") == []


def test_k32_an_issue_that_is_transferred(case_of: MakeCase) -> None:
    """Transferred to another repository an issue is gone from its old place and is there in the new one."""
    case = case_of("github", more='kinds = ["issue"]')
    made = case.act("create", "issue")
    case.quiet()
    other = case.act("create", "repository", body={"owner": "acme", "name": "other"}, deliver=False)

    moved = case.control("POST", "/transfer", {"scope": case.scope, "id": made, "to": other})
    case.quiet()

    assert case.stands("issue", made) is False
    assert moved["id"] == made
    assert case.history("issue", made)[:2] == ["created", "deleted"]


def test_k32_a_label_that_takes_anothers_name(case_of: MakeCase) -> None:
    """A label is its id: when another label gets its old name, each row shows its own."""
    case = case_of("github", more='kinds = ["label"]')
    first = case.act("create", "label", body={"name": "bug"})
    case.quiet()

    case.act("change", "label", first, body={"name": "defect"})
    second = case.act("create", "label", body={"name": "bug"})
    case.quiet()
    case.act("delete", "label", first)
    case.quiet()

    assert (case.stands("label", first), case.stands("label", second)) == (False, True)
    assert case.body("label", second)["name"] == "bug"
    assert case.wrong("label") == []


# --- absence from a list ---


@pytest.mark.parametrize("provider", EVERY)
def test_k33_a_window_shows_what_changed(case_of: MakeCase, provider: str) -> None:
    """What the list of a window does not show has not changed: nothing is deleted, and nothing read."""
    case = case_of(provider)
    for kind in [*DELETABLE[provider], *LASTING[provider]]:
        ids = loaded(case, kind, 3, at=ago(2 * DAY))
        case.act("change", kind, ids[0], at=ago(60), deliver=False)
        rows = [case.row(kind, id_) for id_ in ids[1:]]

        told = case.sweep(kind, since=at(ago(3600)))

        assert told.state == "complete"
        assert case.wrong(kind) == []
        assert [case.stands(kind, id_) for id_ in ids] == [True] * 3
        if kind not in {"release", "label", "milestone"}:  # which are listed whole, whatever the window
            assert [case.row(kind, id_) for id_ in ids[1:]] == rows


@pytest.mark.parametrize(("provider", "kind", "count"), [("github", "issue", 205), ("shopify", "customer", 90)])
def test_k33_a_crawl_that_breaks_off(case_of: MakeCase, provider: str, kind: str, count: int) -> None:
    """A crawl that ends on its second page tombstones none of what it did not reach, and moves no watermark."""
    case = case_of(provider)
    loaded(case, kind, count)
    before = case.watermark(kind)
    behind: Any = vars(case.adapter)["_adapter"]
    crawl = behind.crawl

    def short(name: str, scope: str) -> Iterator[Page]:
        pages = crawl(name, scope)
        yield next(pages)
        case.faults(status={"500": 1})
        yield from pages

    behind.crawl = short
    told = case.sweep(kind, full=True)

    assert told.state == "incomplete"
    assert standing(case, kind) == count
    assert case.watermark(kind) == before
