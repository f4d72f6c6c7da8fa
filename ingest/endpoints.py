"""A webhook's endpoint: its path fixes mode, tenant and zone, and the files that hold its secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from core.clock import Clock
from core.errors import PayhookError, SettingError
from core.event import Event, Mode
from core.files import TextFiles, secret_lines
from core.routing import scope_event
from ingest.settings import EndpointSettings, IngestSettings
from providers.port import Adapter, ListingAdapter, ModeMismatch, PointingAdapter, WeaklySigningAdapter

ENDPOINT = re.compile(r"[A-Za-z0-9_-]{1,64}")
"""How an endpoint is called: its name is also that of its file of secrets."""
API = "-api"
LOOK_AGAIN_S = 1.0
SECRETS_MAX = 8

_Traffic: TypeAlias = tuple[Mode, str | None]
"""Mode and tenant."""


class SecretsMissing(PayhookError):
    def __init__(self, path: Path, problem: str) -> None:
        self.path = path
        self.problem = problem
        super().__init__(
            f"{path}: {problem}; write the provider's signing secrets there, one a line, newest first, nothing else"
        )


class SecretsShared(PayhookError):
    """Two endpoints of different tenants or modes share a secret.

    What was signed for the one could be posted to the other and would take effect there as well; where the live flag
    isn't signed (Adyen), a test notification could be booked as live.
    """

    def __init__(self, path: Path, other: str) -> None:
        self.path = path
        self.other = other
        super().__init__(
            f"{path}: it shares a secret with {other}, whose endpoint is of another tenant or mode: what is signed for "
            "the one would count at the other. Give each secrets of its own; until then both are closed"
        )


@dataclass(frozen=True, slots=True)
class _SecretsSnapshot:
    """A provider's files of secrets, by name, as they all were at one time.

    Taken apart from each other, one file's secrets could be older than another's that was given them.
    """

    at: float
    secrets: dict[str, tuple[str, ...]] = field(repr=False)
    problems: dict[str, str]
    """The problem of each file that holds something else."""
    shared: dict[str, str]
    """The file, by file, of another tenant or mode with which it shares a secret."""


class SecretFiles:
    """``folder/PROVIDER``, and ``folder/PROVIDER.ENDPOINT`` for a provider's further endpoints."""

    def __init__(self, folder: Path, clock: Clock, contexts: EndpointContexts) -> None:
        self._folder = folder
        self._clock = clock
        self._contexts = contexts
        self._files = TextFiles()
        self._looks: dict[str, _SecretsSnapshot] = {}
        self._read: dict[str, tuple[float, tuple[str, ...]]] = {}
        """When a file was looked at, and its secrets."""
        self._absent: dict[str, float] = {}
        """When a file of credentials was looked for, and wasn't there."""

    def find_secrets(self, provider: str, endpoint: str | None) -> tuple[str, ...]:
        """Returns the secrets that a request may be signed with.

        :raises SecretsMissing: there is none, or the file can't be read
        :raises SecretsShared: one of them is an endpoint's of another tenant or mode too
        """
        name = provider if endpoint is None else f"{provider}.{endpoint}"
        look = self._refresh_snapshot(provider)
        if name in look.shared:
            raise SecretsShared(self._folder / name, look.shared[name])
        if name not in look.secrets:
            raise SecretsMissing(self._folder / name, look.problems.get(name, "there is no such file"))
        return look.secrets[name]

    def check_apart(self, providers: Iterable[str]) -> None:
        for provider in providers:
            for name, other in sorted(self._refresh_snapshot(provider).shared.items()):
                raise SecretsShared(self._folder / name, other)

    def find_credentials(self, provider: str, endpoint: str | None) -> tuple[str, ...]:
        """Reads the credentials of the provider's API from ``folder/PROVIDER-api[.ENDPOINT]``; none without the file.

        One that was missing is looked for again after `LOOK_AGAIN_S`: each request asks for it.

        :raises SecretsMissing: it can't be read, or was there before
        """
        name, now = api_file(provider, endpoint), self._clock.monotonic_s()
        if name in self._read:
            return self._read_secrets(name)
        if now - self._absent.get(name, -LOOK_AGAIN_S) < LOOK_AGAIN_S:
            return ()
        if (self._folder / name).exists():
            return self._read_secrets(name)
        self._absent[name] = now
        return ()

    def takes_from(self, provider: str) -> bool:
        return any(name.partition(".")[0] == provider for name in _list_names(self._folder))

    def endpoints_with_credentials(self, provider: str) -> list[str | None]:
        head = api_file(provider, None)
        names = [name.partition(".") for name in sorted(_list_names(self._folder)) if name.partition(".")[0] == head]
        return [endpoint if dot else None for _, dot, endpoint in names if not dot or ENDPOINT.fullmatch(endpoint)]

    def find_missing_credentials(self, provider: str) -> list[str]:
        endpoints = [name.partition(".")[2] for name in _list_names(self._folder) if name.partition(".")[0] == provider]
        wanted = [api_file(provider, endpoint or None) for endpoint in endpoints]
        return sorted(name for name in wanted if not (self._folder / name).exists())

    def check(self, adapters: Mapping[str, Adapter]) -> None:
        """Checks at the start that every file that is there holds secrets of its provider's form.

        :raises SecretsMissing: a file that can't be read, or that holds anything but secrets
        :raises SettingError: a secret of another form
        """
        for name in sorted(_list_names(self._folder)):
            provider = name.partition(".")[0]
            for secret in self._read_secrets(name) if provider in adapters else ():
                adapters[provider].check_secret(secret)
            adapter = adapters.get(provider.removesuffix(API))
            if provider.endswith(API) and isinstance(adapter, WeaklySigningAdapter | PointingAdapter | ListingAdapter):
                for credential in self._read_secrets(name):
                    adapter.check_credential(credential)

    def _refresh_snapshot(self, provider: str) -> _SecretsSnapshot:
        now = self._clock.monotonic_s()
        look = self._looks.get(provider)
        if look is None or now - look.at >= LOOK_AGAIN_S:
            look = self._looks[provider] = self._take_snapshot(provider, now)
        return look

    def _take_snapshot(self, provider: str, now: float) -> _SecretsSnapshot:
        names = {
            secret_file(f"{provider}/{endpoint}" if endpoint else provider)
            for endpoint in self._contexts.list_endpoints(provider)
        }
        names.update(name for name in _list_names(self._folder) if _is_of(provider, name))
        secrets: dict[str, tuple[str, ...]] = {}
        problems: dict[str, str] = {}
        for name in names:
            try:
                secrets[name] = self._read_secret_file(self._folder / name)
            except SecretsMissing as missing:
                problems[name] = missing.problem
        return _SecretsSnapshot(now, secrets, problems, self._find_shared(secrets))

    def _find_shared(self, secrets: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        holders: dict[str, dict[str, _Traffic]] = {}
        for name in sorted(secrets):
            traffic = self._find_traffic(name)
            if traffic is not None:
                for secret in secrets[name]:
                    holders.setdefault(secret, {})[name] = traffic
        shared: dict[str, str] = {}
        for by_name in holders.values():
            for name, traffic in by_name.items():
                other = next((candidate for candidate in by_name if by_name[candidate] != traffic), None)
                if other is not None:
                    shared.setdefault(name, other)
        return shared

    def _find_traffic(self, name: str) -> _Traffic | None:
        provider, dot, endpoint = name.partition(".")
        try:
            context = self._contexts.find_context(provider, endpoint if dot else None)
        except UnknownEndpoint:
            return None
        return context.mode, context.tenant

    def _read_secrets(self, name: str) -> tuple[str, ...]:
        now = self._clock.monotonic_s()
        looked_at, secrets = self._read.get(name, (-LOOK_AGAIN_S, ()))
        if not secrets or now - looked_at >= LOOK_AGAIN_S:
            secrets = self._read_secret_file(self._folder / name)
            self._read[name] = now, secrets
        return secrets

    def _read_secret_file(self, path: Path) -> tuple[str, ...]:
        try:
            secrets = secret_lines(self._files.text(path))
        except (OSError, ValueError) as unreadable:
            raise SecretsMissing(path, str(unreadable)) from unreadable
        if len(secrets) > SECRETS_MAX:
            raise SecretsMissing(path, f"expected 1 to {SECRETS_MAX} secrets, found {len(secrets)}")
        return secrets


def api_file(provider: str, endpoint: str | None) -> str:
    return f"{provider}{API}" if endpoint is None else f"{provider}{API}.{endpoint}"


def _is_of(provider: str, name: str) -> bool:
    of, dot, endpoint = name.partition(".")
    return of == provider and (not dot or ENDPOINT.fullmatch(endpoint) is not None)


def _list_names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []


class UnknownEndpoint(PayhookError):
    def __init__(self, provider: str, endpoint: str | None) -> None:
        self.provider = provider
        self.endpoint = endpoint
        super().__init__("no such endpoint; take the path from the provider's settings here")


@dataclass(frozen=True, slots=True)
class EndpointContext:
    mode: Mode
    tenant: str | None = None
    zone: str | None = None


class EndpointContexts:
    """The context of each path.

    A path that isn't listed has its provider's own: were it a tenant-less one instead, an event that was taken at
    the provider's endpoint could be posted there again and take effect again.
    """

    def __init__(self, settings: IngestSettings) -> None:
        self._known_only = settings.known_endpoints_only
        self._test_traffic = settings.test_traffic
        self._default = EndpointContext(settings.mode)
        self._listed = {
            _split_name(name): _build_context(endpoint, settings.mode) for name, endpoint in settings.endpoints.items()
        }

    def list_endpoints(self, provider: str) -> list[str]:
        """Returns the names of a provider's endpoints, "" for its own.

        Others may be posted to, unless ``known_endpoints_only`` is set.
        """
        listed = {endpoint or "" for name, endpoint in self._listed if name == provider}
        return sorted(listed if self._known_only else {"", *listed})

    def find_context(self, provider: str, endpoint: str | None) -> EndpointContext:
        """
        :raises UnknownEndpoint: it isn't listed, and ``known_endpoints_only`` is set
        """
        listed = self._listed.get((provider, endpoint))
        if listed is not None:
            return listed
        if self._known_only:
            raise UnknownEndpoint(provider, endpoint)
        return self._listed.get((provider, None), self._default)

    def route_event(self, event: Event, context: EndpointContext) -> Event:
        """Returns the event with its context, its keys scoped by tenant; ``event.mode`` says which topics it goes to.

        At a live endpoint the event's own mode routes: only a signed flag can differ from the endpoint's there. At a
        test endpoint nothing live is taken: its secret is known to more people than a live one should be.

        :raises ModeMismatch: live at a test endpoint
        """
        if context.mode == "test" and event.mode != context.mode:
            raise ModeMismatch(context.mode, event.mode)
        return scope_event(event, context.tenant, context.zone)

    def may_take(self, event: Event) -> bool:
        """Returns whether events of its mode are taken at all.

        A provider may send events of both modes to a live endpoint, as Stripe does with Connect
        (https://support.stripe.com/questions/connect-account-webhook-configurations). It must not be told that one was
        wrong: it would try for days, and close the endpoint.
        """
        return event.mode == "live" or self._test_traffic


def check_endpoints(settings: IngestSettings, providers: Iterable[str], secrets: SecretFiles) -> None:
    """Checks at the start that every endpoint has a provider, and that no secret opens two tenants or two modes.

    :raises SettingError: names the endpoint
    :raises SecretsShared: names two files of one secret
    """
    known = frozenset(providers)
    for name in settings.endpoints:
        if _split_name(name)[0] not in known:
            raise SettingError(f"ingest.endpoints.{name}", f"no such provider; known are {', '.join(sorted(known))}")
    secrets.check_apart(sorted(known))


def secret_file(name: str) -> str:
    return name.replace("/", ".")


def _split_name(name: str) -> tuple[str, str | None]:
    provider, slash, endpoint = name.partition("/")
    return provider, endpoint if slash else None


def _build_context(endpoint: EndpointSettings, mode: Mode) -> EndpointContext:
    return EndpointContext(endpoint.mode or mode, endpoint.tenant or None, endpoint.zone or None)
