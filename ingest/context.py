"""Context routing: the path fixes mode, tenant and zone; a signed live flag routes, tenants' keys never meet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from core.errors import PayhookError, SettingError
from core.event import Event, Mode
from core.routing import TopicNames, scoped, topics_of
from ingest.secrets import SecretsMissing
from ingest.settings import EndpointSettings, IngestSettings
from providers.port import ModeMismatch

__all__ = ["Context", "Contexts", "Secrets", "TopicNames", "UnknownEndpoint", "check_endpoints", "topics_of"]


class UnknownEndpoint(PayhookError):
    """The path isn't in the settings, and only those that are count."""

    def __init__(self, provider: str, endpoint: str | None) -> None:
        self.provider = provider
        self.endpoint = endpoint
        super().__init__("no such endpoint; take the path from the provider's settings here")

    def __reduce__(self) -> tuple[type[UnknownEndpoint], tuple[str, str | None]]:
        return UnknownEndpoint, (self.provider, self.endpoint)


@dataclass(frozen=True, slots=True)
class Context:
    """What a webhook's path says of its traffic."""

    mode: Mode
    tenant: str | None = None
    zone: str | None = None


class Contexts:
    """The context of each path.

    A path that isn't listed has its provider's own: were it a tenant-less one instead, an event that was taken at
    the provider's endpoint could be posted there again and take effect again.
    """

    def __init__(self, settings: IngestSettings) -> None:
        self._known_only = settings.known_endpoints_only
        self._test_traffic = settings.test_traffic
        self._default = Context(settings.mode)
        self._listed = {_path(name): _context(one, settings.mode) for name, one in settings.endpoints.items()}

    def endpoints(self, provider: str) -> list[str]:
        """The names of a provider's endpoints, "" for its own; others may be posted to, unless only known ones may."""
        listed = {endpoint or "" for name, endpoint in self._listed if name == provider}
        return sorted(listed if self._known_only else {"", *listed})

    def of(self, provider: str, endpoint: str | None) -> Context:
        """
        :raises UnknownEndpoint: it isn't listed, and ``known_endpoints_only`` is set
        """
        listed = self._listed.get((provider, endpoint))
        if listed is not None:
            return listed
        if self._known_only:
            raise UnknownEndpoint(provider, endpoint)
        return self._listed.get((provider, None), self._default)

    def routed(self, event: Event, context: Context) -> Event:
        """The event with its context, its keys scoped by tenant; ``event.mode`` says which topics it goes to.

        At a live endpoint the event's own mode routes: only a signed flag can differ from the endpoint's there. At a
        test endpoint nothing live is taken: its secret is known to more people than a live one should be.

        :raises ModeMismatch: live at a test endpoint, or test while test traffic is off
        """
        if event.mode != context.mode and (context.mode == "test" or not self._test_traffic):
            raise ModeMismatch(context.mode, event.mode)
        return scoped(event, context.tenant, context.zone)


class Secrets(Protocol):
    """What is asked of the providers' secrets (`ingest.secrets.SecretFiles`)."""

    def of(self, provider: str, endpoint: str | None) -> tuple[str, ...]: ...


def check_endpoints(settings: IngestSettings, providers: Iterable[str], secrets: Secrets) -> None:
    """For the start: every endpoint has a provider, and no secret opens two tenants or two modes.

    With one, what was signed for the one could be posted to the other and would take effect there as well; where the
    live flag isn't signed (Adyen), a test notification could be booked as live.

    :raises SettingError: names the endpoint
    """
    known = frozenset(providers)
    for name in settings.endpoints:
        if _path(name)[0] not in known:
            raise SettingError(f"ingest.endpoints.{name}", f"no such provider; known are {', '.join(sorted(known))}")
    for one, other in _pairs_apart(settings):
        if _secrets(secrets, one) & _secrets(secrets, other):
            raise SettingError(
                f"ingest.endpoints.{other}",
                f"it shares a secret with {one}, which is of another tenant or mode: what is signed for the one would "
                f"count at the other. Give it a secret of its own, in secrets/{secret_file(other)}",
            )


def secret_file(name: str) -> str:
    """``stripe/eu`` has its secrets in the file ``stripe.eu``."""
    return name.replace("/", ".")


def _pairs_apart(settings: IngestSettings) -> Iterator[tuple[str, str]]:
    """Endpoints of one provider whose secrets must differ; the provider's own one first."""
    scopes = _scopes(settings)
    for one, other in itertools.combinations(sorted(scopes), 2):
        if _path(one)[0] == _path(other)[0] and scopes[one] != scopes[other]:
            yield one, other


def _secrets(secrets: Secrets, name: str) -> frozenset[str]:
    """None where there is no file: such an endpoint takes nothing."""
    try:
        return frozenset(secrets.of(*_path(name)))
    except SecretsMissing:
        return frozenset()


def _scopes(settings: IngestSettings) -> Mapping[str, tuple[Mode, str | None]]:
    """Mode and tenant by endpoint, with each provider's own endpoint, listed or not."""
    contexts = Contexts(settings)
    own = {} if settings.known_endpoints_only else {_path(name)[0]: None for name in settings.endpoints}
    found = {name: contexts.of(*_path(name)) for name in [*settings.endpoints, *own]}
    return {name: (context.mode, context.tenant) for name, context in found.items()}


def _path(name: str) -> tuple[str, str | None]:
    provider, slash, endpoint = name.partition("/")
    return provider, endpoint if slash else None


def _context(endpoint: EndpointSettings, mode: Mode) -> Context:
    return Context(endpoint.mode or mode, endpoint.tenant or None, endpoint.zone or None)
