"""The rights of each service at a secured Kafka: its own job and nothing else.

``python -m stack.kafka_rights`` prints the page docs/kafka-rights.md. The tests give each service these rights, on a
cluster with access control lists, and see that it can do its job and that it can't do another's.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

EVENTS, CONTROL, RECEIPTS, ANCHORS = "payments.events", "payments.control", "payments.receipts", "payments.anchors"
DEAD_LETTERS = "dlq."


class Right(NamedTuple):
    """``operations`` on what has a name that begins so: test traffic's topics end in ``.test``."""

    begins: str
    operations: Sequence[str]
    why: str
    kind: str = "topic"


GROUP = Right("payhook-", ("Describe",), "its consumers ask for their group, and join none", "group")


READS, WRITES, LOOKS = ("Read", "Describe"), ("Write", "Describe"), ("Describe", "DescribeConfigs")

RIGHTS: Mapping[str, Sequence[Right]] = MappingProxyType(
    {
        "receiver": (
            Right(EVENTS, ("Write", *LOOKS), "publishes events, and looks whether the topic keeps them"),
            Right(RECEIPTS, ("Write", *LOOKS), "notes what was answered"),
        ),
        "processor": (
            GROUP,
            Right(EVENTS, ("Read", "Write", *LOOKS), "decides events; publishes what was poison again, once it can"),
            Right(CONTROL, ("Read", *LOOKS), "decides commands"),
            Right(ANCHORS, WRITES, "anchors its journal"),
            Right(DEAD_LETTERS, ("Write", *LOOKS), "publishes dead letters"),
        ),
        "console": (
            GROUP,
            Right(CONTROL, WRITES, "sends commands"),
            Right(EVENTS, READS, "shows the lag, and bodies that aren't kept any more"),
            Right(RECEIPTS, READS, "shows what came in within the last hour"),
        ),
        "maintenance": (
            GROUP,
            Right(RECEIPTS, READS, "collects receipts; a verification compares them with the decisions"),
            *(
                Right(begins, READS, "a verification by schedule compares what is there with the journals")
                for begins in (EVENTS, CONTROL, ANCHORS, DEAD_LETTERS)
            ),
        ),
        "alerts": (
            Right("payments.", ("Describe",), "looks whether every partition has its replicas"),
            Right(DEAD_LETTERS, ("Describe",), "looks whether every partition has its replicas"),
        ),
        "operator": (
            GROUP,
            Right(CONTROL, ("Read", "Write", "Describe"), "commands; `payhook verify` reads what there is"),
            Right(EVENTS, ("Read", "Write", "Describe"), "`payhook ledger reconcile` publishes"),
            Right(ANCHORS, READS, "`payhook verify` compares them with the journal"),
            Right(RECEIPTS, READS, "`payhook verify` compares them with the decisions"),
            Right(DEAD_LETTERS, READS, "`payhook verify` compares them with the decisions"),
        ),
        "topics": (
            Right("payments.", ("Create", "AlterConfigs", *LOOKS), "`python -m stack.topics` makes the topics"),
            Right(DEAD_LETTERS, ("Create", "AlterConfigs", *LOOKS), "and marks those of dead letters"),
        ),
    }
)
"""By service."""


SOURCE = "ORDERS"
"""Stands for a topic that another program writes, where a stream reads one."""


def list_source_rights(topic: str) -> Mapping[str, Sequence[Right]]:
    return {
        "processor": (Right(topic, ("Read", "Write", "Describe"), "decides it; publishes a record again on order"),),
        **{
            service: (Right(topic, READS, "shows and compares the records that were decided"),)
            for service in ("console", "maintenance")
        },
        "operator": (Right(topic, ("Read", "Write", "Describe"), "`payhook verify`; `payhook dlq replay --topic`"),),
    }


def rights_with(topics: Sequence[str], dead_letters: Sequence[str] = ()) -> Mapping[str, Sequence[Right]]:
    foreign = [topic for topic in dead_letters if not topic.startswith(DEAD_LETTERS)]
    by_service = {
        service: [*rights, *(right._replace(begins=topic) for right in rights for topic in foreign if _is_dlq(right))]
        for service, rights in RIGHTS.items()
    }
    for topic in topics:
        for service, rights in list_source_rights(topic).items():
            by_service[service] += rights
    return by_service


def _is_dlq(right: Right) -> bool:
    return right.begins == DEAD_LETTERS


def build_commands(service: str, rights: Sequence[Right]) -> Iterator[str]:
    for right in rights:
        operations = " ".join(f"--operation {operation}" for operation in right.operations)
        pattern = f"--resource-pattern-type prefixed --{right.kind} {right.begins}"
        yield f"kafka-acls.sh $AT --add --allow-principal User:{service} {operations} {pattern}"


def build_page() -> Iterator[str]:
    yield "# What each service may do at Kafka"
    yield ""
    yield "One user a service, with the rights below and no others. Topics and groups are named by how they begin:"
    yield "topics of test traffic end in `.test`. How a service is given its user: `kafka.security` in"
    yield "[settings.md](settings.md). The broker that `payhook up` starts has these users and rights, each password in"
    yield "`kafka/SERVICE.credentials` of the data folder, and `admin`, who may do everything."
    yield ""
    yield f"`{SOURCE}` stands for each topic of another program that a stream reads ([streams](streams.md));"
    yield "`payhook up` gives these rights at its own broker too."
    yield ""
    yield "| service | what | may | for |"
    yield "|---|---|---|---|"
    by_service = rights_with([SOURCE])
    for service, rights in by_service.items():
        for right in rights:
            yield f"| {service} | {right.kind} `{right.begins}` | {', '.join(right.operations)} | {right.why} |"
    yield ""
    yield "As commands, where `AT` is `--bootstrap-server HOST:PORT --command-config FILE` of an administrator:"
    yield ""
    yield "```sh"
    for service, rights in by_service.items():
        yield from build_commands(service, rights)
    yield "```"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in build_page())
