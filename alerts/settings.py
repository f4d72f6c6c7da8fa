"""Settings of the alerts: thresholds, and who gets them."""

from __future__ import annotations

from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from dlq.settings import AgeLimits
from notify.settings import Allowance

RECEIVERS_MAX = 16


class ReceiverSettings(Allowance):
    """Settings of one receiver: a webhook (``url``), and what it may be that others may not; or a command. Never
    both."""

    url: str = Field("", description="webhook that gets each notice as a JSON POST; https unless http is set")
    command: tuple[str, ...] = Field(
        (), description="command and its arguments, run without a shell; it gets the notice as JSON on its input"
    )
    only_critical: bool = Field(False, description="only critical alerts, such as the escalation at 48 h")
    token_file: str = Field("", description="file with a bearer token for the webhook; empty: none")

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if bool(self.url) == bool(self.command):
            raise ValueError("expected either url or command")
        if self.url:
            self._check_url()
        if self.command and not self.command[0].startswith("/"):
            raise ValueError("command: expected an absolute path as its first word")
        return self

    def _check_url(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("https", *(["http"] if self.http else [])) or not parts.hostname:
            raise ValueError("url: expected https://HOST/…, or http://HOST/… where http is set")
        if parts.username is not None or parts.password is not None:
            raise ValueError("url: a user or password isn't allowed; set token_file to send a token")


class AlertsSettings(AgeLimits):
    """Settings of the alerts. A share is a part of 1."""

    every_s: float = Field(15.0, ge=0, description="seconds between evaluations; 0: alerts are off")
    depth_max: int = Field(100, ge=0, description="dead events of a stream above which an alert fires")
    lag_max: int = Field(
        10_000, ge=0, description="undecided events of a stream above which an alert fires, unless they shrink"
    )
    retry_share_max: float = Field(
        0.05, gt=0, lt=1, description="share of tries that end in a retry above which an alert fires"
    )
    metrics_port: int = Field(0, ge=0, le=65_535, description="port of the alerts' own metrics; 0 for none")
    receivers: dict[str, ReceiverSettings] = Field(default_factory=dict, description="who gets notices, by name")

    @model_validator(mode="after")
    def _has_few_receivers(self) -> Self:
        if len(self.receivers) > RECEIVERS_MAX:
            raise ValueError(f"{len(self.receivers)} receivers, above the limit of {RECEIVERS_MAX}")
        return self
