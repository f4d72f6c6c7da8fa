"""``payhook dlq list --topic`` and ``replay --topic``: dead letters that another program keeps in KIP-1191's form."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from cli.acting import open_order_producer, open_recorder, this_account
from cli.place import Place
from cli.tables import PrintedTable, print_details
from console.as_json import to_json_text
from console.formats import format_span
from core.clock import SystemClock
from core.routing import MODES
from dlq.others import OthersLetter, OthersTopic
from journal.kafka_log import KafkaLog
from stack.settings import streams_of

ACTION = "bring_back"

TOPIC = click.option(
    "--topic", metavar="NAME", help="Another program's dead-letter topic (KIP-1191) instead; --stream is ignored."
)


def list_letters(place: Place, topic: str, limit: int, *, as_json: bool) -> None:
    letters = _open_topic(place, topic).read_letters(limit)
    if as_json:
        click.echo(to_json_text([_as_json(letter) for letter in letters]))
        return
    if not letters:
        click.echo("no dead letters")
        return
    now = SystemClock().now()
    rows = PrintedTable("ID", "age", "came from", "group", "tries", "holds", right=["ID", "age", "tries"])
    for letter in letters:
        age = "" if letter.died_at is None else format_span(now - letter.died_at, 1)
        rows.add(
            letter.name,
            age,
            _format_origin(letter),
            letter.group or "",
            letter.deliveries or "",
            _describe_content(letter),
        )
    rows.print()
    print_details(
        ((f"ID {letter.name}", letter.problem) for letter in letters if letter.problem), "can't be brought back"
    )


def bring_back(place: Place, topic: str, names: Sequence[str], reason: str, *, dry_run: bool) -> None:
    """Publishes letters again where their headers say that they came from.

    :raises LetterUnusable: one of them can't be; nothing is published then, unless Kafka refused it
    """
    _check_is_others(place, topic)
    letters_topic = _open_topic(place, topic)
    letters = letters_topic.find_letters(names)
    if dry_run:
        letters_topic.check(letters)
        for letter in letters:
            click.echo(f"{letter.name} would be published again in {_format_origin(letter)}")
        return
    with open_recorder(place).record_act(this_account(), ACTION, f"{topic} {' '.join(names)}", reason):
        placed = letters_topic.bring_back(letters)
    for letter, (source, partition, offset) in zip(letters, placed, strict=True):
        click.echo(f"{letter.name} is published again as {source}[{partition}]@{offset}")


def _check_is_others(place: Place, topic: str) -> None:
    for name, stream in streams_of(place.settings).items():
        if any(topic in stream.dlq_topics(mode) for mode in MODES):
            raise click.UsageError(f"{topic} belongs to the stream {name}: use payhook dlq replay --stream {name}")


def _open_topic(place: Place, topic: str) -> OthersTopic:
    kafka = place.kafka()
    return OthersTopic(topic, partial(KafkaLog, kafka), partial(open_order_producer, place))


def _format_origin(letter: OthersLetter) -> str:
    if letter.origin is None:
        return "not said"
    topic, partition, offset = letter.origin
    return f"{topic}[{partition}]@{offset}"


def _describe_content(letter: OthersLetter) -> str:
    return f"a copy, {len(letter.record.value or b''):,} bytes" if letter.is_copy else "a reference"


def _as_json(letter: OthersLetter) -> dict[str, Any]:
    topic, partition, offset = letter.origin or (None, None, None)
    return {
        "id": letter.name,
        "died_at": letter.died_at,
        "topic": topic,
        "partition": partition,
        "offset": offset,
        "group": letter.group,
        "delivery_count": letter.deliveries,
        "is_copy": letter.is_copy,
        "value_bytes": None if letter.record.value is None else len(letter.record.value),
        "problem": letter.problem,
    }
