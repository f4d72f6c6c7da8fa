"""A work stream's backlog in words, for `payhook status`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def catching_up(told: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Lines about what a stream's status says under ``catch_up``; none while it says nothing."""
    if not told:
        return []
    lines = [("arriving", f"{told['arrival_per_s']:,.0f} events/s")]
    if told["behind"]:
        lines.append(("backlog", f"{told['lag']:,} events, {_until_gone(told)}"))
    if told["recommended_executors"] > told["executors"] or told["driver_bound"]:
        lines.append(("capacity", _wanted(told)))
    return lines


def _until_gone(told: Mapping[str, Any]) -> str:
    if told["drain_per_s"] is None:
        return "how long it takes isn't known yet"
    if told["recover_s"] is None:
        return f"growing: {told['drain_per_s']:,.0f} events/s are decided"
    forecast = told["forecast"]
    said = f"; said at first: gone at {forecast['until']}" if forecast and forecast["until"] else ""
    return f"gone in {told['recover_s']:,.0f} s at {told['drain_per_s']:,.0f} events/s{said}"


def _wanted(told: Mapping[str, Any]) -> str:
    executors, partitions = told["recommended_executors"], told["recommended_partitions"]
    if told["driver_bound"]:
        return f"the driver is what is slow: split the stream, executors beyond {executors} won't help"
    return f"the load asks for {executors} executors on {partitions} partitions"
