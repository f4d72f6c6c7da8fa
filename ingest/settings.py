"""Settings of the receiver."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

LIVE_OR_TEST = Literal["live", "test"]


class IngestSettings(BaseModel):
    """The public listener and the claim → publish → confirm protocol. Times in the unit that the name ends with.

    ``publish_timeout_ms`` < the shortest time-out of a provider (5 s) < ``lease_s``: a claim outlives its request.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: str = Field("127.0.0.1", min_length=1, description="address that the receiver binds")
    port: int = Field(8080, ge=0, le=65535, description="port of the receiver")
    metrics_port: int = Field(0, ge=0, le=65535, description="loopback port of the receiver's metrics; 0 for none")
    secrets_dir: str = Field("", description="folder of the providers' secrets; empty: secrets in the data folder")
    mode: LIVE_OR_TEST = Field("live", description="live or test traffic: one ledger never takes both")
    body_bytes_max: int = Field(
        1 << 20, ge=1_024, description="largest body; the largest one seen of a provider is 115 KB"
    )
    read_deadline_s: float = Field(10.0, gt=0, le=60, description="a body that isn't there by then is given up")
    redis_timeout_ms: int = Field(50, ge=1, le=5_000, description="a slower Redis counts as down")
    redis_failures_max: int = Field(5, ge=1, description="failures in a row that open the breaker to Redis")
    redis_reset_s: float = Field(2.0, gt=0, description="an open breaker asks Redis again after this")
    lease_s: float = Field(30.0, gt=0, description="a claim whose owner says nothing for so long is free again")
    in_flight_wait_s: float = Field(1.0, ge=0, le=4, description="how long a request waits for another one's claim")
    confirmed_days: float = Field(8.0, gt=0, description="how long Redis knows a confirmed key: 7 days and 1 of margin")
    publish_timeout_ms: int = Field(4_000, ge=100, le=4_900, description="Kafka's time to acknowledge an event")
    retry_after_s: int = Field(2, ge=1, description="Retry-After of a 503")

    @model_validator(mode="after")
    def _a_claim_outlives_its_request(self) -> Self:
        longest_s = self.in_flight_wait_s + self.publish_timeout_ms / 1000 + self.read_deadline_s
        if self.lease_s <= longest_s:
            raise ValueError(
                f"lease_s must be more than {longest_s:g}: waiting, reading and publishing happen within it"
            )
        return self
