"""Events that die, and the handler that is mended since."""

from __future__ import annotations

from pathlib import Path

from processor.settings import DeadHead
from tests.unit.processor.harness import Engine

BUG = ZeroDivisionError("division by zero")


def dying(engine: Engine, *ids: str, entity: str = "e1", times: int = 10**6) -> list[str]:
    keys = []
    for event_id in ids:
        key = engine.post(event_id, entity)
        engine.handler.fails(key, BUG, times=times)
        keys.append(key)
    engine.batch()
    return keys


def passing(tmp_path: Path) -> Engine:
    """A stream whose followers go on past a dead head."""
    return Engine(tmp_path, dead_head=DeadHead.CONTINUE)


def mended(engine: Engine) -> None:
    engine.handler.script.clear()
    engine.handler.calls.clear()
