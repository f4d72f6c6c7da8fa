"""Settings of the ledger: its merchants, how long bodies stay, how verify, reconciliation and maintenance run."""

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
    refund_awaits_days_max: float = Field(
        30.0,
        gt=0,
        description="days that a refund may wait for its capture; longer is an offence. More where payments were "
        "captured before this ledger began, whose refunds come to it",
    )


class ReconcileSettings(BaseModel):
    """How `payhook ledger reconcile` runs."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    master: str = Field("local[2]", description="Spark master of the reconciliation")
    driver_memory: str = Field("1g", description="memory of the reconciliation's JVM")


class MaintainSettings(BaseModel):
    """How `payhook ledger maintain` runs, and how often it runs by itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every_s: float = Field(
        900.0,
        ge=0,
        description="seconds from one maintenance to the next while the stack is up; 0: none by itself",
    )
    retention_h: int = Field(
        24, ge=1, le=24, description="hours that a replaced file stays, for readers that began before it was replaced"
    )
    files_min: int = Field(
        50,
        ge=2,
        le=5_000,
        description="small files that are worth a rewrite; fewer are left until they make a large one",
    )
    file_rows: int = Field(
        500_000,
        ge=1_000,
        description="rows of a file that small ones are put together in; half as many are no more small",
    )
    file_mb: int = Field(128, ge=1, le=1_024, description="megabytes of such a file; half as many are no more small")
    master: str = Field("local[1]", description="Spark master of the maintenance; one core is left to the processor")
    driver_memory: str = Field("1g", description="memory of the maintenance's JVM")


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
    bodies_days: int = Field(
        0,
        ge=0,
        description="days that raw bodies of settled events are kept, by the maintenance; 0: for ever, since what is "
        "evidence must not go unless somebody says so",
    )
    readers_group: str = Field(
        "",
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$|^$",
        description="system group that may read the journals and the postings in the data folder's lake; empty: none, "
        "as for everything else there",
    )
    verify: VerifySettings = Field(default_factory=lambda: VerifySettings(), description="payhook verify")
    reconcile: ReconcileSettings = Field(
        default_factory=lambda: ReconcileSettings(), description="payhook ledger reconcile"
    )
    maintain: MaintainSettings = Field(
        default_factory=lambda: MaintainSettings(), description="payhook ledger maintain, and its schedule"
    )
