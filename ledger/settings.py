"""Settings of the ledger: where its merchants are named, and the limits of `payhook verify`."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class VerifySettings(BaseModel):
    """How `payhook verify` runs and what it calls too old. Ages in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    master: str = Field("local[2]", description="Spark master of the verification")
    driver_memory: str = Field("1g", description="memory of the verification's JVM")
    sample_max: int = Field(10, ge=1, le=1_000, description="most offenders that one invariant names")
    in_flight_age_s_max: float = Field(
        86_400.0,
        gt=0,
        description="an offset that waits undecided, or an event that waits parked, longer is an offence",
    )


class LedgerSettings(BaseModel):
    """Settings of the ledger's handler and of what is derived for finance."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    merchants_file: str = Field("", description="merchant directory (TOML); empty: merchants.toml in the data folder")
    verify: VerifySettings = Field(default_factory=lambda: VerifySettings(), description="payhook verify")
