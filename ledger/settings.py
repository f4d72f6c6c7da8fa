"""Settings of the ledger: its merchants, how long bodies stay, how verify, reconciliation and maintenance run."""

from __future__ import annotations

from pydantic import Field

from core.settings import Section


class VerifySettings(Section):
    """Settings of `payhook verify`: how often it runs by itself, and what it lets pass."""

    every_h: float = Field(
        24.0,
        ge=0,
        le=720,
        description="hours from one verification of every stream to the next while the stack is up; 0: none by itself",
    )
    memory: str = Field(
        "1g",
        pattern=r"^[1-9][0-9]*[mgMG]$",
        description="memory that a verification on this machine may take; what doesn't fit is put into the data "
        "folder. Where ledger.master is a cluster, ledger.driver_memory counts instead",
    )
    refund_awaits_days_max: float = Field(
        30.0,
        gt=0,
        description="days that a refund may wait for its capture; longer is an offence. More where payments were "
        "captured before this ledger began, whose refunds come to it",
    )


class MaintainSettings(Section):
    """Settings of maintenance: how often it runs by itself, and what it leaves."""

    every_s: float = Field(
        900.0,
        ge=0,
        description="seconds from one maintenance to the next while the stack is up; 0: none by itself",
    )
    retention_h: int = Field(
        24, ge=1, le=24, description="hours that a replaced file stays, for readers that began before it was replaced"
    )


class LedgerSettings(Section):
    """Settings of the ledger's handler and of what is derived for finance."""

    merchants_file: str = Field("", description="merchant directory (TOML); empty: merchants.toml in the data folder")
    merchants_url: str = Field(
        "",
        pattern=r"^(https?://[^\s#?@]+)?$",
        description="merchant directory as a service (ledger/directory.py) instead of the file; empty: the file",
    )
    merchants_token_file: str = Field(
        "", description="file with the bearer token that the service asks for, read for each request; empty: none"
    )
    bodies_days: int = Field(
        0,
        ge=0,
        description="days that raw bodies of settled events are kept, by the maintenance; 0: for ever, since "
        "evidence is only removed when it is asked for",
    )
    readers_group: str = Field(
        "",
        pattern=r"^[A-Za-z_][A-Za-z0-9_.-]*$|^$",
        description="system group that may read the journals and the postings in the data folder's lake; empty: none, "
        "as for everything else there",
    )
    master: str = Field(
        "local[2]",
        description="Spark master of reconciliation, maintenance and rebuilt postings, and of verification where it is "
        "a cluster; while it is local, maintenance and rebuilt postings run on one core",
    )
    driver_memory: str = Field("1g", description="memory of the JVM of each of them")
    verify: VerifySettings = Field(default_factory=VerifySettings, description="payhook verify")
    maintain: MaintainSettings = Field(
        default_factory=MaintainSettings, description="payhook ledger maintain, and its schedule"
    )

    @property
    def is_local(self) -> bool:
        return self.master.startswith("local")
