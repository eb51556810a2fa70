"""GitHub's API for hooks and what was sent to them."""

from __future__ import annotations

from itertools import dropwhile, islice
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from starlette.responses import Response

from adapters.sandbox.deliveries import Endpoint
from adapters.sandbox.github.access import no_jwt
from adapters.sandbox.github.answers import Denied, invalid, missing, success
from adapters.sandbox.github.bodies import full_name, stamp
from adapters.sandbox.github.hooks import Event, Trait, listed
from adapters.sandbox.github.listing import choice, per_page
from reconciler.content import parse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adapters.sandbox.github.calls import Call, Operations
    from adapters.sandbox.github.hooks import Delivered, Hooks
    from adapters.sandbox.github.ledger import Ledger
    from adapters.sandbox.machinery import Machinery
    from adapters.sandbox.world import Body

_ZEN = "Half measures are as bad as nothing at all."
_CONTENT_TYPES = frozenset({"form", "json"})


class Hooking:
    """Answers the calls about the hooks of a repository, an organization and the app."""

    def __init__(self, machinery: Machinery, ledger: Ledger, hooks: Hooks, *, new_id: Callable[[], str]) -> None:
        self._machinery = machinery
        self._ledger = ledger
        self._hooks = hooks
        self._new_id = new_id

    def operations(self) -> Operations:
        """Return what answers each operation."""
        acts: Operations = {}
        for home in ("~/hooks", "/orgs/{login}/hooks"):
            acts |= {
                f"GET {home}": self._list,
                f"POST {home}": self._create,
                f"GET {home}/{{hook_id}}": self._one,
                f"PATCH {home}/{{hook_id}}": self._edit,
                f"DELETE {home}/{{hook_id}}": self._remove,
                f"POST {home}/{{hook_id}}/pings": self._ping,
            }
        acts["GET /app/hook/config"] = self._app_config
        for home in ("~/hooks/{hook_id}", "/orgs/{login}/hooks/{hook_id}", "/app/hook"):
            acts |= {
                f"GET {home}/deliveries": self._deliveries,
                f"GET {home}/deliveries/{{delivery_id}}": self._delivery,
                f"POST {home}/deliveries/{{delivery_id}}/attempts": self._redeliver,
            }
        return acts

    def _mine(self, call: Call) -> Sequence[Endpoint]:
        """Return the hooks of what the path names; whoever may not look after them is told that there are none."""
        if call.asked.request.url.path.startswith("/app/"):
            if call.visit.sort != "app":
                raise no_jwt()
            return self._of("integration")
        if call.visit.sort == "anonymous" or call.visit.blind:
            raise missing()
        if call.scope:
            return [each for each in self._of("repository") if each.scope == call.scope]
        login = call.named("login")
        if not call.views.is_organization(login):
            raise missing()
        owners = {"", login.lower()}
        return [each for each in self._of("organization") if self._hooks.trait(each).owner.lower() in owners]

    def _of(self, target: str) -> Sequence[Endpoint]:
        return [each for each in self._hooks.endpoints if self._hooks.trait(each).target == target]

    def _found(self, call: Call) -> Endpoint:
        wanted = call.asked.request.path_params.get("hook_id")
        for each in self._mine(call):
            if wanted in {None, each.id}:
                return each
        raise missing()

    def _list(self, call: Call) -> Response:
        return success([self._shown(call, each) for each in self._mine(call)])

    def _one(self, call: Call) -> Response:
        return success(self._shown(call, self._found(call)))

    def _app_config(self, call: Call) -> Response:
        """Answer with where the app's webhook sends; an app without one has no address."""
        mine = self._mine(call)
        config: Body = self._config(mine[0]) if mine else {"content_type": "form", "insecure_ssl": "0", "url": ""}
        return success(config)

    def _create(self, call: Call) -> Response:
        """Make a hook and ping it, as GitHub does."""
        self._mine(call)
        sent = _object(call)
        endpoint, trait = self._asked(call, sent, id_=self._new_id())
        self._hooks.add(endpoint, trait)
        self._send_ping(call, endpoint)
        return success(self._shown(call, endpoint), status=201)

    def _edit(self, call: Call) -> Response:
        before = self._found(call)
        trait = self._hooks.trait(before)
        held: Body = {
            "config": {
                "url": before.url,
                "secret": before.secrets[0] if before.secrets else None,
                "content_type": trait.content_type,
            },
            "events": list(before.events),
            "active": before.enabled,
        }
        sent = _object(call)
        added: list[str] = sent.get("add_events", [])
        wanted: list[str] = sent.get("events", list(before.events))
        events = [each for each in wanted + added if each not in sent.get("remove_events", [])]
        asked = {**held, **sent, "config": {**held["config"], **sent.get("config", {})}, "events": events}
        endpoint, changed = self._asked(call, asked, id_=before.id)
        self._hooks.replace(endpoint, changed)
        return success(self._shown(call, endpoint))

    def _asked(self, call: Call, sent: Body, *, id_: str) -> tuple[Endpoint, Trait]:
        config = sent.get("config")
        if not isinstance(config, dict) or not str(config.get("url", "")).startswith(("http://", "https://")):
            raise invalid("Hook", "url", "missing_field")
        if config.get("content_type", "form") not in _CONTENT_TYPES:
            raise invalid("Hook", "content_type")
        secret = config.get("secret")
        endpoint = Endpoint(
            id=id_,
            url=config["url"],
            secrets=(secret,) if secret else (),
            events=tuple(sent.get("events") or ["push"]),
            enabled=bool(sent.get("active", True)),
            scope=call.scope or None,
        )
        trait = Trait(
            content_type=config.get("content_type", "form"),
            target="repository" if call.scope else "organization",
            owner="" if call.scope else call.named("login"),
            created=int(self._machinery.clock.now()),
        )
        return endpoint, trait

    def _remove(self, call: Call) -> Response:
        self._hooks.remove(self._found(call).id)
        return Response(status_code=204)

    def _ping(self, call: Call) -> Response:
        self._send_ping(call, self._found(call))
        return Response(status_code=204)

    def _send_ping(self, call: Call, endpoint: Endpoint) -> None:
        """Send what tells that the hook works; one of an organization names no repository."""
        hook = self._shown(call, endpoint)
        payload: Body = {"zen": _ZEN, "hook_id": hook["id"], "hook": hook}
        owner = call.facts["_owner"] if call.facts is not None else call.named("login")
        if call.facts is not None:
            payload["repository"] = {"id": int(call.scope), "full_name": full_name(call.facts)}
        if call.views.is_organization(owner):
            payload["organization"] = call.views.organization(owner)
        payload["sender"] = call.views.user(self._ledger.user)
        event = Event(
            guid=self._ledger.guid(), name="ping", action=None, scope=call.scope, owner=owner, payload=payload
        )
        self._hooks.ping(endpoint, event)

    def _shown(self, call: Call, endpoint: Endpoint) -> Body:
        trait = self._hooks.trait(endpoint)
        address = f"{call.base}{self._home(call)}/{endpoint.id}"
        latest = next((answer for _, answer in self._hooks.delivered(endpoint.id)), None)
        shown: Body = {
            "type": "Repository" if call.scope else "Organization",
            "id": _numeric(endpoint.id),
            "name": "web",
            "active": endpoint.enabled,
            "events": list(endpoint.events),
            "config": self._config(endpoint),
            "updated_at": stamp(trait.created),
            "created_at": stamp(trait.created),
            "url": address,
            "ping_url": f"{address}/pings",
            "deliveries_url": f"{address}/deliveries",
        }
        if call.scope:
            shown |= {"test_url": f"{address}/test", "last_response": _last_response(latest)}
        return shown

    def _config(self, endpoint: Endpoint) -> Body:
        return {
            "content_type": self._hooks.trait(endpoint).content_type,
            "insecure_ssl": "0",
            "url": endpoint.url,
            **({"secret": "********"} if endpoint.secrets else {}),
        }

    def _home(self, call: Call) -> str:
        if call.facts is not None:
            return f"/repos/{full_name(call.facts)}/hooks"
        login = call.asked.request.path_params.get("login")
        return f"/orgs/{login}/hooks" if login else "/app/hook"

    def _deliveries(self, call: Call) -> Response:
        """Answer with one page of deliveries, newest first, by cursor."""
        endpoint = self._found(call)
        query, size = call.query, per_page(call.query)
        wanted = choice(query, "status", ("", "success", "failure"), resource="HookDelivery")
        found = (
            (delivered, answer)
            for delivered, answer in self._hooks.delivered(endpoint.id)
            if not wanted or answer.startswith("2") == (wanted == "success")
        )
        cursor = query.get("cursor", "")
        rest = dropwhile(lambda each: bool(cursor) and str(each[0].id) != cursor, found)
        rows = list(islice(rest, size + 1))
        response = success([self._brief(call, endpoint, *row) for row in rows[:size]])
        if len(rows) > size:
            onwards = urlencode({**query, "cursor": rows[size][0].id})
            response.headers["Link"] = f'<{call.address}?{onwards}>; rel="next"'
        return response

    def _delivery(self, call: Call) -> Response:
        endpoint = self._found(call)
        delivered, answer = self._sent(call, endpoint)
        shown = self._brief(call, endpoint, delivered, answer)
        payload = delivered.event.payload if delivered.raw.startswith(b"payload=") else parse(delivered.raw)
        return success(
            {
                **shown,
                "request": {"headers": dict(delivered.headers), "payload": payload},
                "response": {"headers": {}, "payload": ""},
            }
        )

    def _redeliver(self, call: Call) -> Response:
        endpoint = self._found(call)
        delivered, _ = self._sent(call, endpoint)
        self._hooks.redeliver(delivered, endpoint)
        return success({}, status=202)

    def _sent(self, call: Call, endpoint: Endpoint) -> tuple[Delivered, str]:
        for delivered, answer in self._hooks.delivered(endpoint.id):
            if str(delivered.id) == call.named("delivery_id"):
                return delivered, answer
        raise missing()

    def _brief(self, call: Call, endpoint: Endpoint, delivered: Delivered, answer: str) -> Body:
        home = self._home(call)
        address = (
            f"{call.base}{home}/deliveries" if home == "/app/hook" else f"{call.base}{home}/{endpoint.id}/deliveries"
        )
        integration = self._hooks.trait(endpoint).target == "integration"
        installation = int(self._hooks.installation(delivered.event.owner)) if integration else None
        return listed(delivered, answer, address=address, installation=installation)


def _object(call: Call) -> Body:
    try:
        sent = parse(call.sent)
    except ValueError:
        raise Denied(400, "Problems parsing JSON") from None
    if not isinstance(sent, dict):
        raise Denied(400, "Body should be a JSON object")
    return sent


def _numeric(id_: str) -> int | str:
    return int(id_) if id_.isdecimal() else id_


def _last_response(answer: str | None) -> Body:
    if answer is None:
        return {"code": None, "status": "unused", "message": None}
    success_ = answer.startswith("2")
    return {
        "code": int(answer) if answer.isdecimal() else 0,
        "status": "active",
        "message": "OK" if success_ else answer,
    }
