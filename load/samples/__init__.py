"""Webhooks of our own making, a module a provider: what ``payhook send``, the demo, load and tests post.

Names, cards and places are invented; shapes and sizes are the providers'. A provider's module is named as its adapter.
"""

from __future__ import annotations

from datetime import datetime
from importlib import import_module

from core.errors import PayhookError
from load.samples.sender import CannotSign, Sample, Samples, Sending, SignedRequest
from providers.port import DEFAULT_ENDPOINT, Adapter

__all__ = ["CannotSign", "NoSamples", "Sample", "Samples", "SignedRequest", "samples_of", "sign"]


class NoSamples(PayhookError):
    """A provider of the registry has no sample file."""

    def __init__(self, provider: str) -> None:
        self.provider = provider
        super().__init__(
            f"{provider} is in providers/registry.py and has no samples: add load/samples/{provider}.py with SAMPLES; "
            "docs/adding-a-provider.md shows one"
        )


def samples_of(provider: str) -> Samples:
    """The samples of a provider in the registry.

    :raises NoSamples: it has no sample file
    """
    try:
        samples = import_module(f"{__name__}.{provider}").SAMPLES
    except ModuleNotFoundError:
        raise NoSamples(provider) from None
    assert isinstance(samples, Samples)
    return samples


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
