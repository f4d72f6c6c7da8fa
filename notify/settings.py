"""Settings of notifications: where subscribers are named, limits of a request, and what may be reached."""

from __future__ import annotations

from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import TypeAlias

from pydantic import Field, field_validator

from core.settings import Section

Network: TypeAlias = IPv4Network | IPv6Network

TIMEOUT_S_MAX = 30.0
"""The upper end of what Standard Webhooks recommends. The notify stream's handler_deadline_s is longer."""


class Allowance(Section):
    """Permissions of one receiver of HTTP requests (a subscriber, a receiver of alerts), beyond the default.

    In payhook's settings, not in the subscribers file, which other people may edit.
    """

    networks: tuple[str, ...] = Field(
        (), description="networks (CIDR) that aren't public and may be reached all the same, such as 10.1.0.0/16"
    )
    ports: tuple[int, ...] = Field((), description="ports beside 443 (and 80 with http)")
    http: bool = Field(False, description="plain HTTP: what is sent can be read on the way")

    @field_validator("networks")
    @classmethod
    def _are_networks(cls, networks: tuple[str, ...]) -> tuple[str, ...]:
        for text in networks:
            ip_network(text)
        return networks

    @field_validator("ports")
    @classmethod
    def _are_ports(cls, ports: tuple[int, ...]) -> tuple[int, ...]:
        for port in ports:
            if not 1 <= port <= 65_535:
                raise ValueError(f"{port} isn't a port: expected 1 to 65535")
        return ports

    def parse_networks(self) -> tuple[Network, ...]:
        return tuple(ip_network(text) for text in self.networks)


class NotifySettings(Section):
    """Settings of the notify handler. Times of a request are constants of `notify.sender`."""

    subscribers_file: str = Field("", description="subscribers (TOML); empty: subscribers.toml in the data folder")
    secrets_dir: str = Field(
        "",
        description="folder below which subscribers' secrets and header values may stand, beside secrets/notify/ and "
        "secrets/notify.… of the subscribers file's folder",
    )
    data_dir: str = Field(
        "", exclude=True, description="the data folder, where the processor writes; it isn't set here"
    )
    allow: dict[str, Allowance] = Field(
        default_factory=dict, description="by subscriber: networks, ports and plain HTTP that it may use"
    )
    ca_file: str = Field("", description="CA certificates (PEM) to trust beside the public ones")
