"""What a stream is put together from, without Spark: what the driver learns travels to the handler's workers."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from pydantic import BaseModel

from core.clock import SystemClock
from core.layout import Layout
from core.settings import KafkaSettings
from journal.anchors import AnchorKeys
from notify.errors import SubscriberGone
from notify.settings import NotifySettings
from processor.opening import Shared, open_source
from processor.streams import load_streams
from processor.wiring import Wired, wire
from tests.unit.notify.place import item

SUBSCRIBERS = """
[shop]
url = "https://hooks.example.com/in"

[bank]
url = "https://bank.example.com/in"
"""
WITHOUT_SHOP = SUBSCRIBERS[SUBSCRIBERS.index("[bank]") :]
SHARED = Shared(None, KafkaSettings(), {}, SystemClock(), 1, AnchorKeys(["k" * 32]))  # type: ignore[arg-type]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "subscribers.toml"
    path.write_text(SUBSCRIBERS)
    return path


@pytest.fixture
def wired(tmp_path: Path, file: Path) -> Wired:
    sections: dict[type, BaseModel] = {NotifySettings: NotifySettings(subscribers_file=str(file))}
    return wire(load_streams()["notify"], "live", Layout(tmp_path).stream, sections)


def test_a_worker_that_starts_later_knows_whom_its_stream_was_started_with(wired: Wired, file: Path) -> None:
    open_source(wired, SHARED)
    file.write_text(WITHOUT_SHOP)
    handler = pickle.loads(pickle.dumps(wired.task)).build_handler()
    with pytest.raises(SubscriberGone, match="shop is no longer in"):
        handler(item("shop"))


def test_who_was_named_once_is_known_until_the_process_ends(wired: Wired, file: Path) -> None:
    open_source(wired, SHARED)
    file.write_text(WITHOUT_SHOP)
    open_source(wired, SHARED)
    assert wired.reads is not None
    assert wired.reads.receivers.names == ("bank", "shop")
