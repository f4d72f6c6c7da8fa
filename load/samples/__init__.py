"""Webhooks of our own making, a module a provider: what ``payhook send``, the demo, load and tests post.

Names, cards and places are invented; shapes and sizes are the providers'. A provider's module is named as its adapter.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from importlib import import_module
from importlib.util import find_spec
from secrets import token_hex

from core.errors import PayhookError
from load.samples.sender import CannotSign, Sample, Samples, Sending, SignedRequest
from providers.installed import SAMPLES_GROUP, find_entry_points, load_entry
from providers.port import DEFAULT_ENDPOINT, Adapter

__all__ = [
    "CannotSign",
    "NoSamples",
    "NoSuchSample",
    "Sample",
    "Samples",
    "SignedRequest",
    "sample_body",
    "sample_names",
    "samples_of",
    "sign",
]


class NoSamples(PayhookError):
    """A provider has no samples."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        super().__init__(
            f"{provider} has no samples: add load/samples/{provider}.py with SAMPLES, or to a package of your own the "
            f"entry point {provider} of the group {SAMPLES_GROUP}; docs/adding-a-provider.md shows both"
        )


class NoSuchSample(PayhookError):
    """No sample has this name. ``names``: those there are."""

    def __init__(self, name: str, names: Sequence[str]) -> None:
        self.name = name
        self.names = tuple(names)
        super().__init__(f"there is no sample {name!r}; there are {', '.join(names)}")


def samples_of(provider: str) -> Samples:
    """The samples of a provider, of payhook's or of a package of one's own.

    :raises NoSamples: it has none
    :raises AdapterUnusable: they can't be imported
    """
    module = f"{__name__}.{provider}"
    if find_spec(module) is not None:
        samples = import_module(module).SAMPLES
    else:
        entry = find_entry_points(SAMPLES_GROUP).get(provider)
        if entry is None:
            raise NoSamples(provider)
        samples = load_entry(entry)
    assert isinstance(samples, Samples)
    return samples


def sample_names(providers: Iterable[str]) -> list[str]:
    """Returns what `sample_body` makes: ``stripe:charge.succeeded``."""
    return [f"{provider}:{event_type}" for provider in sorted(providers) for event_type in samples_of(provider).by_type]


def sample_body(name: str, providers: Iterable[str], now: datetime) -> tuple[str, bytes]:
    """A provider and a body of its own, of an event and a payment that never were before, on 12.50 EUR.

    :raises NoSuchSample: see there
    """
    provider, _, event_type = name.partition(":")
    names = sample_names(providers)
    if name not in names:
        raise NoSuchSample(name, names)
    event, payment, movement = (token_hex(6) for _ in range(3))
    sample = Sample(event=event, payment=payment, movement=movement, account="sample", at=now)
    return provider, samples_of(provider).by_type[event_type](sample)


def sign(
    adapter: Adapter,
    body: bytes,
    secret: str,
    now: datetime,
    event_id: str | None = None,
    endpoint: str = DEFAULT_ENDPOINT,
) -> SignedRequest:
    """The request that the provider would send.

    :raises SettingError: the secret isn't of the provider's form, or a setting that is signed is missing
    :raises Unparseable: Adyen signs items, and none are to be found
    :raises CannotSign: only the provider can
    """
    adapter.check_secret(secret)
    return samples_of(adapter.name).sign(Sending(adapter, body, secret, now, event_id, endpoint))
