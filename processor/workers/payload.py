"""Decodes payloads that aren't JSON at a stream's edge: the handler gets JSON, the journal keeps the exact bytes.

``json``: the bytes go to the handler as they came. ``avro:FILE.avsc``: one datum in Avro's binary encoding, plain or as
a single object. With a folder of the writers' schemas each value names its own one (`processor.workers.framing`), and
is resolved to FILE; ``avro`` gives it as it was written. ``protobuf:FILE.desc#package.Message``: one message, plain or
in Confluent's framing; FILE is a FileDescriptorSet (``protoc --include_imports --descriptor_set_out=FILE``).

JSON made of Avro: bytes and fixed are base64, decimals texts (no amount passes through a float), times ISO 8601. JSON
made of Protobuf is Protobuf's own mapping ("ProtoJSON"), with the fields' names as they are in the .proto file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import orjson

from core.decision import ErrorKind
from core.errors import PayhookError, SettingError
from core.strict_json import DEPTH_MAX
from core.work import Handler, Outcome, WorkItem
from processor.workers.avro import SCHEMAS_MAX, check_bounds, decode_avro, decode_resolved, parse_avro
from processor.workers.framing import Unwrap, WriterSchemas, unframe_message

BYTES_MAX = 1 << 20
"""As large as the largest body that the receiver takes, and Kafka's own limit of a record."""

JSON_BYTES_MAX = 16 << 20
"""A decoded payload repeats its fields' names; what grows beyond this is meant to."""

PAYLOAD_PATTERN = r"^(json|avro(:.+)?|protobuf:.+#.+)$"

SCHEMA_BYTES_MAX = 256 << 10
"""The schema travels with every task."""

SCHEMAS_BYTES_MAX = 1 << 20
"""Of a folder; all of them travel with every task."""


class PayloadTooLarge(PayhookError):
    kind = ErrorKind.NRE

    def __init__(self, what: str, size_bytes: int, bytes_max: int) -> None:
        self.what = what
        self.size_bytes = size_bytes
        self.bytes_max = bytes_max
        super().__init__(
            f"{what} has {size_bytes} bytes, {bytes_max} is the most that the stream takes; raise payload_bytes_max, "
            "start the processor again and replay the event, or resolve it by hand"
        )


class PayloadUndecodable(PayhookError):
    kind = ErrorKind.NRE

    def __init__(self, payload: str, problem: str) -> None:
        self.payload = payload
        self.problem = problem
        super().__init__(
            f"the payload isn't {payload}: {problem}. Compare the writer's schema with the stream's; with the right "
            "one configured, start the processor again and replay the event"
        )


@dataclass(frozen=True, slots=True)
class Decoder:
    """Makes JSON of a payload. Picklable: it carries its schema, so that executors need no file.

    ``name`` has format, file and the schema's hash. ``unwrap`` comes first: it takes off what isn't the data.
    """

    name: str
    decode: Callable[[bytes], Any] | None
    bytes_max: int
    unwrap: Unwrap | None = None

    def __call__(self, body: bytes) -> bytes:
        """
        :raises PayloadTooLarge: more than ``bytes_max``, or more than `JSON_BYTES_MAX` of JSON
        :raises PayloadUndecodable: not of this format, or nested deeper than `DEPTH_MAX`
        """
        if len(body) > self.bytes_max:
            raise PayloadTooLarge("the payload", len(body), self.bytes_max)
        if self.decode is None and self.unwrap is None:
            return body
        try:
            data = body if self.unwrap is None else self.unwrap(body)
            if self.decode is None:
                return data
            document = self.decode(data)
            _check_depth(document)
            text = orjson.dumps(document)
        except Exception as wrong:
            # The libraries answer wrong bytes with whatever error they come upon first.
            raise PayloadUndecodable(self.name, f"{type(wrong).__name__}: {str(wrong)[:300]}") from wrong
        if len(text) > JSON_BYTES_MAX:
            raise PayloadTooLarge("the payload's JSON", len(text), JSON_BYTES_MAX)
        return text


class Decoding:
    """A handler behind a decoder: it gets JSON. It is as pure as the handler.

    ``version`` joins the versions of the handler and of the schema by which its payloads were read.
    """

    def __init__(self, build_handler: Callable[[], Handler], decoder: Decoder) -> None:
        self._handler = handler = build_handler()
        self._decoder = decoder
        self.version = f"{handler.version} {decoder.name}" if decoder.decode is not None else handler.version
        self.pure = bool(getattr(handler, "pure", False))

    def __call__(self, item: WorkItem) -> Outcome:
        body = self._decoder(item.body)
        return self._handler(item if body is item.body else replace(item, body=body))


def make_decoder(
    text: str, *, bytes_max: int = BYTES_MAX, setting: str = "payload", schemas: str = "", unwrap: Unwrap | None = None
) -> Decoder:
    """Makes the decoder that a stream's ``payload`` names; its schemas are read now, once.

    :param setting: how ``payload`` is named in a message
    :param schemas: the folder of the writers' Avro schemas, if there is one
    :raises SettingError: no such format, or its files can't be used
    """
    form, _, named = text.partition(":")
    if schemas and form != "avro":
        raise SettingError(f"{setting}_schemas", f"it is for payload = avro, this one is {form}: leave it out")
    if text == "json":
        return Decoder("json", None, bytes_max, unwrap)
    if form == "avro" and schemas:
        return _make_resolving_decoder(named, schemas, bytes_max, setting, unwrap)
    if text == "avro":
        raise SettingError(
            setting, "payload = avro needs the writers' schemas: set payload_schemas, or name avro:FILE.avsc"
        )
    if form == "avro" and named:
        content = _read_content(named, setting)
        return Decoder(_make_name("avro", named, content), _make_avro_decode(content, setting), bytes_max, unwrap)
    file, mark, message = named.rpartition("#")
    if form == "protobuf" and mark and file and message:
        content = _read_content(file, setting)
        name = _make_name("protobuf", f"{file}#{message}", content)
        return Decoder(name, _make_protobuf_decode(content, message, setting), bytes_max, unwrap)
    problem = f"{text!r} isn't known: expected json, avro, avro:FILE.avsc or protobuf:FILE.desc#package.Message"
    raise SettingError(setting, problem)


def _make_name(form: str, named: str, content: bytes) -> str:
    return f"{form}:{Path(named).name}@{hashlib.sha256(content).hexdigest()[:12]}"


def _read_content(file: str, setting: str) -> bytes:
    try:
        content = Path(file).read_bytes()
    except OSError as unreadable:
        raise SettingError(setting, f"{file} can't be read: {unreadable.strerror}") from unreadable
    if len(content) > SCHEMA_BYTES_MAX:
        raise SettingError(setting, f"{file} has {len(content)} bytes, at most {SCHEMA_BYTES_MAX} are allowed")
    return content


def _make_resolving_decoder(named: str, folder: str, bytes_max: int, setting: str, unwrap: Unwrap | None) -> Decoder:
    reader = _read_content(named, setting) if named else None
    files = _read_schema_files(folder, f"{setting}_schemas")
    contents = [*([] if reader is None else [reader]), *files.values()]
    prints = {_compute_fingerprint(content, setting): content for content in contents}
    numbers = {int(name): content for name, content in files.items() if name.isdecimal()}
    decode = partial(decode_resolved, WriterSchemas(folder, prints, numbers), reader)
    return Decoder(_make_name("avro", named or folder, b"".join(contents)), decode, bytes_max, unwrap)


def _read_schema_files(folder: str, setting: str) -> dict[str, bytes]:
    if not Path(folder).is_dir():
        raise SettingError(setting, f"there is no folder {folder}: put the writers' schemas there, *.avsc")
    files = sorted(Path(folder).glob("*.avsc"))
    if not files:
        raise SettingError(setting, f"{folder} holds no schema: put the writers' schemas there, *.avsc")
    contents = {file.stem: _read_content(str(file), setting) for file in files[: SCHEMAS_MAX + 1]}
    size = sum(map(len, contents.values()))
    if len(contents) > SCHEMAS_MAX or size > SCHEMAS_BYTES_MAX:
        most = f"at most {SCHEMAS_MAX} of {SCHEMAS_BYTES_MAX} bytes together are allowed"
        raise SettingError(setting, f"{folder} holds {len(files)} schemas of {size} bytes, {most}")
    return contents


def _make_avro_decode(content: bytes, setting: str) -> Callable[[bytes], Any]:
    _compute_fingerprint(content, setting)
    return partial(decode_avro, content)


def _compute_fingerprint(content: bytes, setting: str) -> bytes:
    try:
        check_bounds(orjson.loads(content), DEPTH_MAX)
        return parse_avro(content)[1]
    except Exception as wrong:
        raise SettingError(setting, f"the Avro schema can't be used: {type(wrong).__name__}: {wrong}") from wrong


def _make_protobuf_decode(content: bytes, message: str, setting: str) -> Callable[[bytes], Any]:
    try:
        _load_protobuf(content, message)
    except Exception as wrong:
        problem = f"{message} can't be made of the descriptors: {wrong}; write them with protoc --include_imports"
        raise SettingError(setting, problem) from wrong
    return partial(_decode_protobuf, content, message)


@lru_cache(maxsize=32)
def _load_protobuf(content: bytes, message: str) -> tuple[Any, Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # type: ignore[import-untyped]

    pool = descriptor_pool.DescriptorPool()
    for file in descriptor_pb2.FileDescriptorSet.FromString(content).file:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(message)), pool


def _decode_protobuf(content: bytes, message: str, body: bytes) -> Any:
    from google.protobuf import json_format

    message_class, pool = _load_protobuf(content, message)
    path, body = unframe_message(body)
    if path is not None and path != _find_message_path(message_class.DESCRIPTOR):
        raise ValueError(
            f"it is message {path} of its schema, {message} is {_find_message_path(message_class.DESCRIPTOR)} of "
            "its own"
        )
    read = message_class.FromString(body)
    if body and not read.ListFields():
        raise ValueError("it holds none of the message's fields")
    return json_format.MessageToDict(read, preserving_proto_field_name=True, descriptor_pool=pool)


def _find_message_path(descriptor: Any) -> list[int]:
    outer = descriptor.containing_type
    siblings = descriptor.file.message_types_by_name.values() if outer is None else outer.nested_types
    names = [sibling.name for sibling in siblings]
    return [*([] if outer is None else _find_message_path(outer)), names.index(descriptor.name)]


def _check_depth(document: Any) -> None:
    level = [document]
    for _ in range(DEPTH_MAX + 1):
        level = [
            child
            for node in level
            if isinstance(node, (dict, list))
            for child in (node.values() if isinstance(node, dict) else node)
        ]
        if not level:
            return
    raise ValueError(f"nested deeper than {DEPTH_MAX}")
