"""From what is written to `Settings`: every key read by its reader, every fault collected, nothing believed unread."""

from __future__ import annotations

import difflib
import os
from dataclasses import MISSING, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from reconciler import installed, times
from reconciler.config.files import LISTS, Override, Written, find
from reconciler.config.settings import (
    CALL_TIMEOUT,
    TABLE,
    DrainSettings,
    Endpoint,
    GitHubAccess,
    Settings,
    ShopifyAccess,
    Source,
    StripeAccess,
    keys,
    read,
)
from reconciler.config.shops import spread
from reconciler.config.values import Given
from reconciler.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from dataclasses import Field
    from datetime import timedelta

    from reconciler.adapter import Access, Provider
    from reconciler.config.files import Tree

T = TypeVar("T")

_ANYBODYS = (
    "does not say which deliveries are about it, and anybody may install an app; give it repositories, organizations or"
    " the installation_id of its app"
)
_WHOSE_OWN = (
    "are of several Stripe accounts in one mode, and what is about an account itself does not say which; give each an"
    " endpoint of its own"
)

DEFAULT_FILE = Path("/etc/reconciler/reconciler.toml")


def load(path: Path | None, environment: Mapping[str, str], *, default: Path = DEFAULT_FILE) -> Settings:
    """
    Return the settings that *path* (else `$RECONCILER_CONFIG`, else *default*) and the environment give.

    Secrets are looked up now. Raises `ConfigError` with every fault there is; without any file all is default, and
    there are no sources.
    """
    written = Written()
    files = find(path, environment, default=default)
    for file in files:
        written.add(file)
    written.override(environment)
    spread(written)
    reading = Reading(environment, faults=written.faults)
    settings = reading.settings(written, files)
    if settings is None or reading.faults:
        raise ConfigError(*dict.fromkeys(reading.faults))
    return settings


@dataclass(frozen=True, slots=True)
class Layer:
    """A table as written, and the name under which a fault in it is told; earlier layers stand over later ones."""

    where: str
    tree: Tree

    def label(self, name: str) -> str:
        """Return how a fault names the key *name* of this table."""
        variable = f" ({value.variable})" if isinstance(value := self.tree.get(name), Override) else ""
        return f"{self.where}.{name}{variable}".removeprefix(".")


@dataclass(slots=True)
class Reading:
    """One pass over what is written; gathers faults and warnings."""

    environment: Mapping[str, str]
    faults: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def settings(self, written: Written, files: tuple[Path, ...]) -> Settings | None:
        """Return everything checked; None where there are faults."""
        root = Layer("", written.tree)
        defaults = self._defaults(root.tree.pop("defaults", {}))
        self._only(root, [*keys(Settings), "defaults", *LISTS])
        fallback = Layer("", {"state_directory": str(state_directory(self.environment, root=os.geteuid() == 0))})
        self._names(written)
        layers = list(_layers("sources", written))
        read = [(layer, self._source(layer, defaults)) for layer in layers]
        sources = [(layer, source) for layer, source in read if source is not None]
        endpoints = self._endpoints(written, [source for _, source in sources])
        fed = {name for endpoint in endpoints for name in endpoint.sources}
        for layer, source in sources:
            self._warn_of(layer, source, fed=fed)
        return self._built(
            Settings,
            root,
            fallback,
            sources=tuple(source for _, source in sources),
            endpoints=endpoints,
            warnings=tuple(dict.fromkeys(self.warnings)),
            files=files,
        )

    def _source(self, layer: Layer, defaults: Mapping[str, Layer]) -> Source | None:
        name = str(layer.tree.get("provider", ""))
        provider = self._provider(layer.label("provider"), name)
        if provider is None:
            return None
        self._only(layer, _source_keys(provider))
        layers = (layer, defaults.get(name, Layer("", {})), Layer(layer.where, {"api_version": provider.api_version}))
        access = cast("Access | None", self._built(provider.access, *layers))
        source = self._built(Source, *layers, access=access)
        for fault in () if access is None else access.faults():
            self._fault(layer.where, fault)
        return source

    def _provider(self, label: str, name: str) -> Provider | None:
        """Return what speaks to the provider *name*; None where nothing does, or what is installed for it is broken."""
        if name not in installed.names():
            self._fault(label, f"{name!r} names no provider; {_one_of_providers(name)}")
            return None
        try:
            return installed.provider(name)
        except ConfigError as error:
            self._fault(label, str(error))
            return None

    def _warn_of(self, layer: Layer, source: Source, *, fed: Collection[str]) -> None:
        access = source.access
        signed = source.webhook_secrets or (isinstance(access, ShopifyAccess) and access.client_secret is not None)
        if not signed and source.name not in fed:
            self._warn(layer.label("webhook_secrets"), "there are none, so every delivery to this source is refused")

    def _endpoints(self, written: Written, sources: Sequence[Source]) -> tuple[Endpoint, ...]:
        providers = {str(entry.get("name")): str(entry.get("provider")) for _, entry in written.lists["sources"]}
        read = [self._endpoint(layer, providers, sources) for layer in _layers("endpoints", written)]
        return tuple(endpoint for endpoint in read if endpoint is not None)

    def _endpoint(self, layer: Layer, providers: Mapping[str, str], sources: Sequence[Source]) -> Endpoint | None:
        """Return the endpoint with its sources by name, whose *providers* are written; None where it cannot work."""
        self._only(layer, keys(Endpoint))
        endpoint = self._built(Endpoint, layer)
        if endpoint is None:
            return None
        unfit = list(_unfit(endpoint, providers))
        for name, sentence in unfit:
            self._fault(layer.label(name), sentence)
        if unfit:
            return None
        named = endpoint.sources or tuple(name for name, each in providers.items() if each == endpoint.provider)
        for source in sources:
            if source.name in named and isinstance(source.access, GitHubAccess) and not source.access.says_whose():
                self._fault(layer.label("sources"), f"{source.name!r} {_ANYBODYS}")
        if _is_ambiguous([source.access for source in sources if source.name in named]):
            self._fault(layer.label("sources" if endpoint.sources else "provider"), _WHOSE_OWN)
        if not endpoint.webhook_secrets:
            self._warn(layer.label("webhook_secrets"), "there are none, so every delivery to this endpoint is refused")
        return replace(endpoint, sources=named, provider=providers[named[0]])

    def _defaults(self, written: object) -> dict[str, Layer]:
        """Return the layers of `[defaults.PROVIDER]`, each value read once even where no source needs it."""
        if not isinstance(written, dict):
            self._fault("defaults", "is no table; write [defaults.PROVIDER]")
            return {}
        layers = {}
        for name, tree in written.items():
            if name not in installed.names() or not isinstance(tree, dict):
                self._fault(f"defaults.{name}", f"is no table of a provider; {_one_of_providers(name)}")
                continue
            provider = self._provider(f"defaults.{name}", name)
            if provider is None:
                continue
            layers[name] = Layer(f"defaults.{name}", tree)
            declared = _source_keys(provider)
            self._only(layers[name], declared.keys() - {"name", "provider"})
            for one in declared.keys() & tree.keys():
                self._value(declared[one], layers[name])
        return layers

    def _names(self, written: Written) -> None:
        found: dict[str, Path] = {}
        for kind in LISTS:
            for file, entry in written.lists[kind]:
                name = str(entry.get("name", ""))
                if name in found:
                    self._fault(
                        f"{kind}[{name}].name", f"is used twice, in {found[name]} and in {file}; rename one of them"
                    )
                if name:
                    found.setdefault(name, file)

    def _built(self, cls: Callable[..., T], *layers: Layer, **more: object) -> T | None:
        """Return a *cls* of what the layers say and of *more*; None where that has a fault."""
        before = len(self.faults)
        into: dict[str, Any] = dict(more)
        for name, declared in keys(cls).items():
            layer = next((layer for layer in layers if name in layer.tree), None)
            if layer is not None:
                into[name] = self._value(declared, layer)
            elif declared.default_factory is not MISSING:
                into[name] = declared.default_factory()
            elif declared.default is not MISSING:
                into[name] = declared.default
            else:
                self._fault(layers[0].label(name), "is missing; it must be set")
        for name, sentence in _CHECKS.get(cls, _nothing)(into):
            self._fault(layers[0].label(name), sentence)
        return cls(**into) if len(self.faults) == before else None

    def _value(self, declared: Field[Any], layer: Layer) -> object:
        """Return what *layer* says under a key, read; None where that is a fault."""
        value, label = layer.tree[declared.name], layer.label(declared.name)
        given = Given(value, self.environment)
        if isinstance(value, Override):
            given = Given(value.text, self.environment, overridden=True)
        if TABLE in declared.metadata:
            return self._table(declared.metadata[TABLE], given, label)
        try:
            return read(declared, given)
        except ValueError as error:
            self._fault(label, str(error))
            return None
        finally:
            for warning in given.warnings:
                self._warn(label, warning)

    def _table(self, cls: Callable[..., object], given: Given, label: str) -> object:
        tree = given.plain()
        if not isinstance(tree, dict):
            self._fault(label, f"is no table; its keys are {', '.join(keys(cls))}")
            return None
        layer = Layer(label, tree)
        self._only(layer, keys(cls))
        return self._built(cls, layer)

    def _only(self, layer: Layer, known: Iterable[str]) -> None:
        """Add a fault for each key of *layer* that is not *known*."""
        for name in layer.tree.keys() - set(known):
            self._fault(layer.label(name), f"is no key here; {_one_of(name, known)}")

    def _fault(self, label: str, sentence: str) -> None:
        self.faults.append(f"{label}: {sentence}")

    def _warn(self, label: str, sentence: str) -> None:
        self.warnings.append(f"{label}: {sentence}")


def state_directory(environment: Mapping[str, str], *, root: bool) -> Path:
    """Return where state is kept if no setting says so; under systemd the first of the unit's own directories."""
    given = environment.get("STATE_DIRECTORY", "").partition(":")[0]
    if given:
        return Path(given)
    shared = Path(environment.get("XDG_STATE_HOME", ""))
    if shared.is_absolute():
        return shared / "reconciler"
    return (
        Path("/var/lib/reconciler") if root else Path(environment.get("HOME") or Path.home(), ".local/state/reconciler")
    )


def _lease(into: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    lease, limit = into.get("lease"), times.spell(CALL_TIMEOUT)
    if lease is not None and lease <= CALL_TIMEOUT:
        yield "lease", f"{times.spell(lease)} does not exceed the {limit} that one call may take; make it longer"


def _listeners(into: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    web, admin = into.get("web"), into.get("admin")
    if web and admin and web.listen == admin.listen and web.listen.port:
        yield "admin.listen", f"{admin.listen} is where the public listener is; give one of them another port"


def _redelivers(source: Source) -> timedelta:
    return installed.provider(source.provider).redelivers


def _retention(into: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    retention = into.get("retention")
    longest = max(into.get("sources", ()), key=_redelivers, default=None)
    if retention is None or longest is None:
        return
    within = _redelivers(longest)
    for name, span in retention.kept().items():
        if span is not None and span < within:
            least, told = times.spell(within), f"{longest.provider} may deliver an event again ({longest.name})"
            sentence = (
                f"{times.spell(span)} is less than the {least} within which {told}: write {least} or more, so that"
            )
            yield f"retention.{name}", f"{sentence} a repeat is known as one"


def _together(into: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield from _listeners(into)
    yield from _retention(into)


def _nothing(_: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    return iter(())


# What no single key shows: the faults of a table, each with the key to name.
_CHECKS: Mapping[Callable[..., object], Callable[[Mapping[str, Any]], Iterator[tuple[str, str]]]] = {
    DrainSettings: _lease,
    Settings: _together,
}


def _unfit(endpoint: Endpoint, providers: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield what keeps an endpoint from feeding sources of these *providers*, each with the key to name."""
    if bool(endpoint.sources) == bool(endpoint.provider):
        yield "sources", "needs a provider beside it or names in it, not both; set one of the two"
    if endpoint.provider and endpoint.provider not in installed.names():
        yield "provider", f"names no provider; {_one_of_providers(endpoint.provider)}"
    elif endpoint.provider and endpoint.provider not in providers.values():
        yield "provider", f"there is no source of {endpoint.provider}; add one, or take the endpoint out"
    for name in endpoint.sources:
        if name not in providers:
            yield "sources", f"{name!r} is no source; {_one_of(name, providers)}"
    found = dict.fromkeys(providers[name] for name in endpoint.sources if name in providers)
    if len(found) > 1:
        yield "sources", f"are of several providers, {', '.join(found)}; give each provider an endpoint of its own"


def _is_ambiguous(accesses: Iterable[Access]) -> bool:
    """Say whether several Stripe keys of one mode are among them: each is, or may be, of an account of its own."""
    keys_of: dict[str, set[str]] = {}
    for access in accesses:
        if isinstance(access, StripeAccess):
            key = access.api_key.reveal()
            keys_of.setdefault("live" if "_live_" in key else "test", set()).add(key)
    return any(len(found) > 1 for found in keys_of.values())


def _layers(kind: str, written: Written) -> Iterator[Layer]:
    for number, (_, entry) in enumerate(written.lists[kind], start=1):
        yield Layer(f"{kind}[{entry.get('name') or f'#{number}'}]", entry)


def _source_keys(provider: Provider) -> dict[str, Field[Any]]:
    return keys(Source) | keys(provider.access)


def _one_of_providers(name: str) -> str:
    near = difflib.get_close_matches(name, installed.names(), n=1)
    there = f"there are {', '.join(installed.names())}"
    return f"did you mean {near[0]}? {there}" if near else there


def _one_of(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"
