"""Settings of the ledger: where its merchants are named, limits of `payhook verify`, how reports are reconciled."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class VerifySettings(BaseModel):
    """How `payhook verify` runs and what it calls too old. Ages in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    master: str = Field("local[2]", description="Spark master of the verification")
    driver_memory: str = Field("1g", description="memory of the verification's JVM")
    sample_max: int = Field(10, ge=1, le=1_000, description="most offenders that one invariant names")
    anchor_age_s_max: float = Field(
        3_600.0, gt=0, description="a journal whose last row is older than this and isn't anchored is an offence"
    )
    in_flight_age_s_max: float = Field(
        86_400.0,
        gt=0,
        description="an offset that waits undecided, or an event that waits parked, longer is an offence",
    )


class ReconcileSettings(BaseModel):
    """How `payhook ledger reconcile` runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    master: str = Field("local[2]", description="Spark master of the reconciliation")
    driver_memory: str = Field("1g", description="memory of the reconciliation's JVM")


class LedgerSettings(BaseModel):
    """Settings of the ledger's handler and of what is derived for finance."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    merchants_file: str = Field("", description="merchant directory (TOML); empty: merchants.toml in the data folder")
    merchants_url: str = Field(
        "",
        pattern=r"^(https?://[^\s#?@]+)?$",
        description="merchant directory as a service (ledger/directory_http.py) instead of the file; empty: the file",
    )
    merchants_token_file: str = Field(
        "", description="file with the bearer token that the service asks for; empty: none"
    )
    merchants_timeout_s: float = Field(
        1.0, gt=0, le=60, description="longest wait for the service: to connect, and for each read of its answer"
    )
    merchants_cache_s: float = Field(
        60.0, ge=0, le=86_400, description="seconds that a merchant which the service found is taken as it was"
    )
    merchants_cache_max: int = Field(10_000, ge=1, description="most merchants of the service that a worker remembers")
    verify: VerifySettings = Field(default_factory=lambda: VerifySettings(), description="payhook verify")
    reconcile: ReconcileSettings = Field(
        default_factory=lambda: ReconcileSettings(), description="payhook ledger reconcile"
    )
