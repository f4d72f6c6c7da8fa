"""Settings of what the receiver fetches from providers: PayPal's certificates and events, Mollie's payments."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class FetchSettings(BaseModel):
    """A fetch happens while a provider waits for its answer: everything about it has a limit.

    A request waits for its turn and for the provider's answer, each up to ``timeout_s``: together that is less than
    the 15 s that Mollie gives, and than the receiver's ``lease_s``, which begins afterwards. A request of PayPal's that
    moves money may wait twice: for a certificate, which is kept for a day, and for what the API says of the event.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    timeout_s: float = Field(3.0, gt=0, le=6, description="a provider that hasn't answered by then is asked later")
    answer_bytes_max: int = Field(
        256 * 1024, ge=1_024, le=1 << 20, description="largest answer; a payment with its refunds is a few KB"
    )
    at_once_max: int = Field(16, ge=1, le=256, description="fetches under way at once")
    waiting_max: int = Field(256, ge=1, le=10_000, description="requests that wait for a fetch; one more is put off")
    kept_max: int = Field(64, ge=1, le=1_024, description="answers kept for the time that an adapter allows")
    hosts_max: int = Field(32, ge=1, le=256, description="hosts whose circuit breakers are remembered")
    failures_max: int = Field(5, ge=1, description="failures in a row that open the breaker to a host")
    reset_s: float = Field(5.0, gt=0, description="an open breaker asks its host again after this")
