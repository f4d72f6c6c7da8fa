"""A subscriber's receiver that can be taken down."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from core.clock import SystemClock
from load.subscriber import Reply, Subscriber
from notify.signature import new_secret


@dataclass
class Shop:
    """A subscriber's receiver that can be taken down."""

    reply: Reply | None = None
    secret: str = field(default_factory=new_secret)

    def __post_init__(self) -> None:
        self.server = Subscriber([self.secret], SystemClock(), replies=lambda _: self.reply)

    @property
    def reported(self) -> set[str]:
        return {envelope["fact"]["event_key"] for envelope in self.server.envelopes if "fact" in envelope}

    def subscribe(self, folder: Path, environment: pytest.MonkeyPatch) -> None:
        """Names it in a data folder that isn't up yet."""
        allowed = {"shop": {"networks": ["127.0.0.0/8"], "ports": [self.server.port], "http": True}}
        environment.setenv("PAYHOOK_NOTIFY__ALLOW", json.dumps(allowed))
        (folder / "secrets").mkdir(mode=0o700)
        (folder / "secrets" / "notify.shop").write_text(self.secret + "\n")
        (folder / "subscribers.toml").write_text(f'[shop]\nurl = "{self.server.url}"\n')
