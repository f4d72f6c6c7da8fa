"""Settings of the receiver."""

from __future__ import annotations

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from core.event import Mode
from core.settings import BODY_BYTES_MAX, Section

CARD_FIELDS = (
    *("number", "card_number", "card_no", "cc_number", "credit_card_number", "account_pan", "pan"),
    "primary_account_number",
)
SECRET_FIELDS = (
    *("cvc", "cvc2", "cvc_code", "cvv", "cvv2", "cvv_code", "cvn", "cvd", "cav", "cav2", "cid", "csc"),
    *("card_cvc", "card_cvv", "card_code", "card_verification_value", "security_code", "card_security_code"),
    *("track1", "track2", "track1_data", "track2_data", "track3", "track3_data", "track_data"),
    *("track2_equivalent_data", "track1_discretionary_data", "track2_discretionary_data"),
    *("track_discretionary_data", "discretionary_data", "magnetic_stripe", "pin_block"),
)


def field_name(name: str) -> str:
    """``cardNumber``, ``card_number`` and ``CARD-NUMBER`` are one name."""
    return name.replace("_", "").replace("-", "").lower()


def _check_field_name(name: str) -> str:
    if not field_name(name).isalnum() or not name.isascii():
        raise ValueError("a field's name is ASCII letters, digits, _ and -")
    return name


FieldName = Annotated[str, AfterValidator(_check_field_name)]


class PanSettings(Section):
    """Settings of what counts as card data. Names are compared without case, ``_`` and ``-``; ids are never masked."""

    enabled: bool = Field(True, description="mask card numbers and the fields below before anything is stored")
    card_fields: tuple[FieldName, ...] = Field(
        CARD_FIELDS,
        description="fields that hold card numbers: 12 to 19 digits in them are masked but for the last four, "
        "whether or not the check digit is right",
    )
    secret_fields: tuple[FieldName, ...] = Field(
        SECRET_FIELDS,
        description="fields that hold a card's codes and track data: masked wholly where they have a digit",
    )


NAME_PATTERN = r"^(?:[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?)?$"
"""A tenant's or a zone's: it stands in keys and Kafka headers. Empty for none."""
ENDPOINT = re.compile(r"[a-z0-9]{1,32}(?:/(?!default$)[A-Za-z0-9_-]{1,64})?")
"""A provider's name, alone for its endpoint without a name."""


class EndpointSettings(Section):
    """Settings of a webhook's path, which hold before anything in a request is believed."""

    mode: Mode | None = Field(None, description="live or test; none: the receiver's mode")
    tenant: str = Field("", pattern=NAME_PATTERN, description="whose traffic it is; keys of two tenants never meet")
    zone: str = Field("", pattern=NAME_PATTERN, description="zone that is noted with each event; decides nothing")


class IngestSettings(Section):
    """Settings of the public listener and the claim protocol. `ingest.limits.ReceiverLimits` has what isn't set."""

    host: str = Field("127.0.0.1", min_length=1, description="address that the receiver binds")
    port: int = Field(
        8080,
        ge=0,
        le=65535,
        description="port of the receiver; where it isn't set and is taken, `payhook up` takes the next free one",
    )
    metrics_port: int = Field(
        0,
        ge=0,
        le=65535,
        description="port of the receiver's metrics, each further worker on the next; 0 for none",
    )
    secrets_dir: str = Field("", description="folder of the providers' secrets; empty: secrets in the data folder")
    mode: Mode = Field("live", description="mode of endpoints that name none")
    test_traffic: bool = Field(
        False,
        description="take test traffic too, in topics, a journal and a DLQ of its own; off: it is answered, "
        "counted and left out. `payhook up` then runs a second processor: another Spark JVM, about 1 GB of memory",
    )
    endpoints: dict[str, EndpointSettings] = Field(
        default_factory=dict,
        description='mode, tenant and zone by path: `[ingest.endpoints."stripe/eu"]` is for /webhooks/stripe/eu; '
        "a path that isn't listed is treated as its provider's own",
    )
    known_endpoints_only: bool = Field(False, description="a path that isn't in endpoints is answered 404")
    body_bytes_max: int = Field(
        1 << 20,
        ge=1_024,
        le=BODY_BYTES_MAX,
        description="largest body; the largest one seen of a provider is 115 KB",
    )
    redis_timeout_ms: int = Field(50, ge=1, le=5_000, description="a slower Redis counts as down")
    workers: int = Field(1, ge=1, le=64, description="processes that take webhooks on the one port")
    rates_per_s: dict[str, float] = Field(
        default_factory=dict,
        description="verified requests a second that one process takes of a provider, twice that at once; more are "
        "answered 429; a provider that isn't named isn't limited",
    )
    catch_up_every_s: float = Field(
        240.0,
        ge=0,
        le=86_400,
        description="seconds from one look at each provider's own list of events to the next, where there are "
        "credentials of its API (secrets/PROVIDER-api); what no webhook brought comes in so; 0: none by itself",
    )
    pan: PanSettings = Field(PanSettings(), description="What is masked as card data")

    @property
    def taken_modes(self) -> tuple[Mode, ...]:
        return ("live", "test") if self.test_traffic else ("live",)

    @field_validator("endpoints")
    @classmethod
    def _named_by_their_paths(cls, endpoints: dict[str, EndpointSettings]) -> dict[str, EndpointSettings]:
        for name in endpoints:
            if not ENDPOINT.fullmatch(name):
                raise ValueError(
                    f"{name!r} is no endpoint: write the provider's name, or PROVIDER/ENDPOINT with a name of "
                    "1 to 64 letters, digits, _ and -; the endpoint without a name is the provider's"
                )
        return endpoints

    @model_validator(mode="after")
    def _test_traffic_has_a_place(self) -> Self:
        named = {
            "mode": self.mode,
            **{f"endpoints.{name}.mode": endpoint.mode for name, endpoint in self.endpoints.items()},
        }
        for setting, mode in named.items():
            if mode == "test" and not self.test_traffic:
                raise ValueError(f"{setting} is test, and all of it would be refused: set test_traffic too")
        return self

    @model_validator(mode="after")
    def _some_path_is_answered(self) -> Self:
        if self.known_endpoints_only and not self.endpoints:
            raise ValueError("known_endpoints_only without endpoints refuses every request: list them")
        return self
