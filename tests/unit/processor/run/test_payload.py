"""Avro and Protobuf at a stream's edge: the handler sees JSON, and what can't be read dies with a clear class."""

from __future__ import annotations

import json
import pickle
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import (  # type: ignore[import-untyped]
    descriptor_pb2,
)

from core.decision import ErrorKind
from core.errors import SettingError
from core.layout import Layout
from core.strict_json import DEPTH_MAX
from core.work import Applied, WorkItem
from processor.judge.classify import Classifier
from processor.run import payload
from processor.run.payload import Decoder, Decoding, PayloadTooLarge, PayloadUndecodable, decoder_of
from processor.streams import load_streams
from processor.wiring import wire
from tests.unit.processor.harness import Engine
from tests.unit.processor.payload_handler import build
from tests.unit.processor.run.payloads import (
    PAID_JSON,
    avro,
    descriptors,
    encoded,
    protobuf,
)

# settings


@pytest.mark.parametrize(
    ("text", "reported"),
    [
        ("xml", "isn't known"),
        ("avro", "isn't known"),
        ("avro:", "isn't known"),
        ("avro:/nowhere/a.avsc", "can't be read: No such file"),
        ("protobuf:a.desc", "isn't known"),
        ("protobuf:#M", "isn't known"),
        ("protobuf:/nowhere/a.desc#M", "can't be read: No such file"),
    ],
)
def test_a_payload_that_is_not_known_is_an_error_of_the_start(text: str, reported: str) -> None:
    with pytest.raises(SettingError, match=reported) as refused:
        decoder_of(text, setting="[orders] payload")
    assert refused.value.setting == "[orders] payload"


def test_a_schema_that_cannot_be_used_is_an_error_of_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no type is named|isn't known"):
        avro(tmp_path, {"type": "money"})
    with pytest.raises(SettingError, match=r"shop\.v1\.Refund"):
        protobuf(tmp_path, "shop.v1.Refund")
    with pytest.raises(SettingError, match="include_imports"):
        alone = descriptor_pb2.FileDescriptorSet.FromString(descriptors())
        del alone.file[0]
        protobuf(tmp_path, content=alone.SerializeToString())
    (tmp_path / "large.avsc").write_bytes(b" " * (payload.SCHEMA_BYTES_MAX + 1))
    with pytest.raises(SettingError, match="at most"):
        decoder_of(f"avro:{tmp_path / 'large.avsc'}")


# limits


def test_a_payload_beyond_the_limit_is_not_looked_at(tmp_path: Path) -> None:
    for decoder in (decoder_of("json", bytes_max=10), avro(tmp_path, bytes_max=10)):
        with pytest.raises(PayloadTooLarge, match="11 bytes, 10 is the most"):
            decoder(b"x" * 11)
    assert decoder_of("json", bytes_max=10)(b"x" * 10) == b"x" * 10


def test_json_that_grows_beyond_its_limit_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload, "JSON_BYTES_MAX", 10)
    with pytest.raises(PayloadTooLarge, match="JSON"):
        avro(tmp_path)(encoded())


# in front of a handler


def work(body: bytes) -> WorkItem:
    return WorkItem(1, "k", "e", "shop", "acct", "t", body, None, 0)


def test_a_handler_behind_a_decoder_travels_and_sees_json(tmp_path: Path) -> None:
    travelled = pickle.loads(pickle.dumps(partial(Decoding, build, avro(tmp_path))))
    (tmp_path / "payment.avsc").unlink()
    handler = travelled()
    item = work(encoded())
    assert handler(item) == Applied()
    seen = handler._handler.item
    assert json.loads(seen.body) == PAID_JSON
    assert (seen.event_key, item.body) == ("k", encoded())
    assert handler.version.startswith("seen-1 avro:payment.avsc@")


def test_a_handler_of_json_gets_the_bytes_as_they_came() -> None:
    handler = Decoding(build, decoder_of("json"))
    handler(work(b"not even JSON"))
    assert handler._handler.item.body == b"not even JSON"  # type: ignore[attr-defined]
    assert handler.version == "seen-1"


@pytest.mark.parametrize(
    ("error", "error_class"),
    [
        (PayloadTooLarge("the payload", 11, 10), "PayloadTooLarge"),
        (PayloadUndecodable("avro:a", "x"), "PayloadUndecodable"),
    ],
)
def test_such_an_event_dies_with_a_clear_class(error: Exception, error_class: str) -> None:
    failure = Classifier().failure(pickle.loads(pickle.dumps(error)))
    assert (failure.kind, failure.error_class, failure.message) == (ErrorKind.NRE, error_class, str(error))


def test_a_stream_takes_its_payload_and_its_bound_from_its_configuration(tmp_path: Path) -> None:
    avro(tmp_path)
    config = load_streams(
        settings={
            "orders": {
                "source": "kafka:orders",
                "handler": "tests.unit.processor.payload_handler:build",
                "payload": f"avro:{tmp_path / 'payment.avsc'}",
                "payload_bytes_max": 500,
            }
        }
    )["orders"]
    wired = wire(config, "live", Layout(tmp_path).stream, {})
    handler = pickle.loads(pickle.dumps(wired.task.build_handler))()
    handler(work(encoded()))
    assert json.loads(handler._handler.item.body) == PAID_JSON
    with pytest.raises(PayloadTooLarge):
        handler(work(b"x" * 501))


def test_a_payload_that_cannot_be_read_costs_its_own_event_and_its_bytes_are_kept(tmp_path: Path) -> None:
    engine = Engine(tmp_path / "engine")
    letter = avro(tmp_path, {"type": "fixed", "name": "Letter", "size": 1})
    scripted = engine.handler
    engine.handler = Decoding(lambda: scripted, letter)  # type: ignore[assignment]
    engine.start()
    for event_id, entity in (("a", "e1"), ("bb", "e2"), ("c", "e3")):
        engine.post(event_id, entity=entity)
    applied, dead, other = engine.batch()
    assert [applied.decision, dead.decision, other.decision] == ["applied", "dead", "applied"]
    assert (dead.error_class, dead.error_kind, dead.attempt) == ("PayloadUndecodable", ErrorKind.NRE, 0)
    assert engine.bodies.by_hash[dead.body_sha256 or ""] == b"bb"
    assert (applied.handler_version or "").startswith("test-1")


def deep(body: bytes) -> Any:
    document: Any = 1
    for _ in range(int(body)):
        document = {"in": [document]}
    return document


def test_json_nests_no_deeper_than_a_handler_may_read() -> None:
    decoder = Decoder("deep", deep, 10)
    assert json.loads(decoder(b"%d" % (DEPTH_MAX // 2)))
    with pytest.raises(PayloadUndecodable, match="nested deeper"):
        decoder(b"%d" % (DEPTH_MAX // 2 + 1))
