"""Payment providers: the only place that knows one."""

from providers.fields import ContentVersionUnknown
from providers.port import Adapter, Answer, ModeMismatch, Request, SignatureInvalid, SignatureReason
from providers.registry import build_adapters
from providers.settings import MoneyRule, ProvidersSettings, StandardWebhooksSettings

__all__ = [
    "Adapter",
    "Answer",
    "ContentVersionUnknown",
    "ModeMismatch",
    "MoneyRule",
    "ProvidersSettings",
    "Request",
    "SignatureInvalid",
    "SignatureReason",
    "StandardWebhooksSettings",
    "build_adapters",
]
