"""``payhook status``: whether webhooks get all the way, and what waits of one entity."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from http.client import HTTPException
from typing import TYPE_CHECKING, Any

import click

from cli.place import Place, check_stream, with_place_of_mode
from cli.tables import PrintedTable, print_details
from core.clock import SystemClock, to_rfc3339
from core.event import Mode
from core.routing import mode_of
from core.status_file import StatusWait, read_said, waits_of
from core.visible import make_visible
from stack.endpoints import as_dict, read_endpoints

if TYPE_CHECKING:
    from console.waits import EventWait
    from journal.entity_queue import EntityQueue
    from journal.open_item import OpenItem
    from stack.settings import Settings

ASK_TIMEOUT_S = 10.0
PROCESSOR_FIGURES = {
    "epoch": "epoch",
    "seq": "decisions",
    "open": "open events",
    "dead": "dead events",
    "blocked": "blocked",
}
"""The parts of the processor's status that people see, with their names; --json has all of it."""
SUMMED = frozenset({"seq", "open", "dead"})
"""The figures whose sum over several journals is shown; the others are shown one by one."""
NO_TEST_TRAFFIC: dict[str, Any] = {"ready": False, "problem": "test traffic isn't accepted: ingest.test_traffic is off"}


@click.command()
@click.option("--entity", metavar="KEY", help="Show what one payment's events wait for instead: stripe:acct_1:pi_1.")
@click.option("--stream", default="ledger", show_default=True, metavar="NAME", help="With --entity: the work stream.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@with_place_of_mode
def status(place: Place, entity: str | None, stream: str, as_json: bool) -> None:
    """Show whether webhooks get all the way, and how far behind the processor is. Exit 1 if they don't.

    With --test: whether test traffic does. With --entity: that entity's open events in Kafka's order, each with its
    attempt, when it is due, its reason, which wait holds it and what to do. That is read from the stream's index,
    where its processor runs or ran.

    Where no `payhook up` runs on the data folder (containers, several hosts) each service is asked where the settings
    say that it is: console.ingest_url, console.metrics_urls.
    """
    if entity is not None:
        check_stream(place.settings, stream)
        _print_entity(place, stream, entity, as_json=as_json)
        return
    endpoints = read_endpoints(place.settings.data_dir)
    if endpoints is not None:
        answers = {"up": True, "ready": False, "endpoints": as_dict(endpoints), **_ask(endpoints.ops)}
    else:
        answers = _ask_each(place.settings)
    side = answers if place.mode == "live" else answers.get("test", NO_TEST_TRAFFIC)
    if (results := read_said(place.layout.verified_file)) is not None:
        answers["verified"] = dict(results)
    if (results := read_said(place.layout.caught_up)) is not None:
        answers["caught_up"] = results.get("sources", {})
    if as_json:
        click.echo(json.dumps(answers, indent=2))
    else:
        _print_status(answers, side, place.mode)
    sys.exit(0 if side["ready"] else 1)


def _print_entity(place: Place, stream: str, entity: str, *, as_json: bool) -> None:
    from journal.entity_queue import read_entity

    part = replace(place, stream=stream).part_of_entity(entity)
    queue = read_entity(part.looked_at.index, entity)
    print_entity(part, queue, read_said(part.looked_at.status), SystemClock().now(), as_json=as_json)


def _ask(ops: str) -> dict[str, Any]:
    try:
        with urllib.request.urlopen(f"{ops}/status", timeout=ASK_TIMEOUT_S) as answer:  # noqa: S310 - our own listener
            read: dict[str, Any] = json.loads(answer.read())
    except (OSError, HTTPException, ValueError) as failed:
        return {"ready": False, "problem": f"the management listener doesn't answer: {failed}"}
    return read


def _ask_each(settings: Settings) -> dict[str, Any]:
    names_services = bool(settings.console.ingest_url or settings.console.metrics_urls)
    if not names_services and not any(settings.layout.ledger().status.parent.glob("processor-*.json")):
        return {"up": False, "ready": False}

    import asyncio

    import httpx2

    from console.health import KafkaLag, ledger_statuses, marks_of, read_status, scrape_process, sides_of
    from console.received import refusal_counts
    from core.status_file import fresh_status
    from stack.watching import build_watched, open_receipt_tail

    clock = SystemClock()
    lag, tail, now = KafkaLag(settings.kafka), open_receipt_tail(settings, clock), clock.now()
    places = build_watched(settings, lag.read)

    async def ask() -> dict[str, Any]:
        async with httpx2.AsyncClient(trust_env=False) as client:
            answers = await read_status(places, client, now)
            pages = await asyncio.gather(*(scrape_process(name, url, client) for name, url in places.metrics.items()))
        return {**answers, "processes": {page.process: page.text is not None for page in pages}}

    try:
        gathered = asyncio.run(ask())
        names_services = bool(settings.console.ingest_url or places.metrics)
        # At the receiver's own port on loopback another stack's may answer.
        answering = [gathered["ingest"]["ready"], *gathered["processes"].values()] if names_services else []
        gathered["up"] = any(
            [
                *answering,
                *(fresh_status(stream_status, now) is not None for stream_status in gathered["streams"].values()),
            ]
        )
        if gathered["up"]:
            tail.read_new_receipts()
            for mode, side in sides_of(gathered).items():
                side["lag"] = lag.read(marks_of(ledger_statuses(gathered, mode)))
                side["refused"] = refusal_counts(tail.get_last_hour(mode))
    finally:
        lag.close()
        tail.close()
    if not gathered["up"]:
        gathered["asked"] = [places.ingest_ready_url, *places.metrics.values()] if names_services else []
    return gathered


def _print_status(answers: dict[str, Any], side: dict[str, Any], mode: Mode) -> None:
    if not answers["up"]:
        click.echo(_not_up(answers))
        return
    from console.health import ledger_statuses

    parts, lag = ledger_statuses(answers, mode), side.get("lag")
    details: list[tuple[str, str | None]] = [
        ("ready", "yes" if side["ready"] else "no"),
        *_list_addresses(answers.get("endpoints", {})),
        ("receiver", "ready" if answers.get("ingest", {}).get("ready") else "not ready"),
        ("processor", "ready" if all(part.get("ready") for part in parts) else "not ready"),
    ]
    for name, shown in PROCESSOR_FIGURES.items():
        values = [part[name] for part in parts if part.get(name) is not None]
        if values:
            details.append(
                (shown, str(sum(values)) if name in SUMMED and len(values) > 1 else ", ".join(map(str, values)))
            )
    if lag is not None:
        details.append(("undecided", ", ".join(f"{topic} {count}" for topic, count in lag.items())))
    for part in parts:
        of_it = f" of {part.get('stream')}" if len(parts) > 1 else ""
        details += [(f"{name}{of_it}", shown) for name, shown in catching_up(part.get("catch_up", {}))]
        if part.get("by_range"):
            gone = f"Kafka no longer holds the last decided record of {', '.join(part['by_range'])}"
            details.append((f"compared by id and range{of_it}", gone))
    details += [(f"stream {name}", _of_stream(stream)) for name, stream in answers.get("streams", {}).items()]
    details += held_back([*parts, *answers.get("streams", {}).values()])
    details += list_refusals(side.get("refused", {}))
    details += list_verified(answers.get("verified", {}), mode)
    details += caught_up(answers.get("caught_up", {}))
    if side is answers and "test" in answers:
        details.append(("test traffic", "ready" if answers["test"]["ready"] else "not ready"))
    if "endpoints" in answers:
        details.append(("pids", ", ".join(f"{name} {pid}" for name, pid in answers["endpoints"]["pids"].items())))
    processes = answers.get("processes", {})
    details += [(f"process {name}", "answers" if up else "doesn't answer") for name, up in processes.items()]
    problem = side.get("problem", answers.get("problem"))
    print_details([*details, ("problem", None if problem is None else str(problem))])


def _list_addresses(endpoints: Mapping[str, Any]) -> list[tuple[str, str]]:
    if not endpoints:
        return []
    return [("post webhooks to", f"{endpoints['ingest']}/webhooks/PROVIDER"), ("management", f"{endpoints['ops']}/")]


def list_refusals(counts: Mapping[str, int]) -> list[tuple[str, str]]:
    from ingest.errors import REMEDIES

    return [
        (f"refused {code}", f"{count:,} in the last hour. {REMEDIES.get(code, '')}".rstrip())
        for code, count in counts.items()
    ]


def list_verified(known: Mapping[str, Any], mode: Mode) -> list[tuple[str, str]]:
    return [
        (f"verified {stream}", f"{results['at']}: {_describe_outcome(results)}")
        for stream, results in sorted(known.items())
        if mode_of(stream) == mode
    ]


def caught_up(sources: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(f"caught up with {name}", _caught_up(source)) for name, source in sorted(sources.items())]


def _caught_up(source: Mapping[str, Any]) -> str:
    until, missing = source["until"] or "never", source.get("missing")
    until += ", and the provider says that it sends no webhooks to us" if source.get("switched_off") else ""
    if source["problem"]:
        return f"until {until}: {source['problem']}" + (f"; missing now: {missing:,}" if missing else "")
    came = f"{source['fetched']:,} events were missing and came in" if source["fetched"] else "nothing was missing"
    return f"until {until}: {came}; {source.get('fetched_day', 0):,} came in within a day"


def _describe_outcome(results: Mapping[str, Any]) -> str:
    wrong, invariants = results["wrong"], results.get("invariants") or {}
    left_out = [name for name, result in invariants.items() if result["not_checked"] is not None]
    verdict = f"{', '.join(wrong)} {'do' if len(wrong) > 1 else 'does'} not hold" if wrong else "all of it holds"
    return f"{verdict}; not checked: {', '.join(left_out)}" if left_out else verdict


def _not_up(answers: dict[str, Any]) -> str:
    """Says what to do. A stack that runs elsewhere has a processor there: another one here would take the journal from
    it.
    """
    if urls := ", ".join(answers.get("asked", [])):
        return f"nothing answers at {urls}: look at the services there; `payhook up` would start another stack here"
    return "not running: `payhook up --detach` starts it"


def _of_stream(stream: dict[str, Any]) -> str:
    ready, state = stream.get("ready"), str(stream.get("state", "not started"))
    why = stream.get("why") or stream.get("blocked") or (None if ready else stream.get("last_failure"))
    reported = "not ready" if state == "running" and not ready else state
    restarts = stream.get("restarts", 0)
    new = f", new: {stream['begun']}" if stream.get("begun") else ""
    return reported + (f" ({why})" if why else "") + (f", begun again {restarts} times" if restarts else "") + new


REASON_SHOWN_CHARS_MAX = 120


def print_entity(
    place: Place, queue: EntityQueue, status: Mapping[str, Any] | None, now: datetime, *, as_json: bool
) -> None:
    from console.waits import find_wait, list_waits, stream_wait

    stream = place.looked_at.stream
    waits = [(item, find_wait(queue, item, status, now)) for item in queue.items]
    if as_json:
        click.echo(json.dumps(as_tree(stream, queue, waits), indent=2))
        return
    if not queue.total:
        stream_hold = stream_wait(status, now)
        then = "no earlier event holds back new ones" if stream_hold is None else f"new events wait. {stream_hold[1]}"
        click.echo(f"no open events of {make_visible(queue.entity_key)} in {stream}: {then}")
        return
    from console.details import TextsShownOnce

    names = ("item", "event", "state", "place", "attempt", "due", "reason")
    rows, once = PrintedTable(*names, right=["item", "attempt"]), TextsShownOnce()
    for item in queue.items:
        last = item.row
        reason = (last.reason or "")[:REASON_SHOWN_CHARS_MAX]
        why = once.text(reason, f"item {last.item_seq}", last.error_class or "")
        rows.add(
            last.item_seq,
            last.event_key,
            last.decision.value,
            queue.describe_place(item),
            last.attempt,
            _describe_due(item, now),
            why,
        )
    rows.print()
    for line in list_waits(waits):
        click.echo(make_visible(line))
    click.echo(_describe_queue(place, queue))


def as_tree(stream: str, queue: EntityQueue, waits: Sequence[tuple[OpenItem, EventWait]]) -> dict[str, Any]:
    return {
        "stream": stream,
        "entity_key": queue.entity_key,
        "seq": queue.seq,
        "total": queue.total,
        "head": queue.head,
        "previous_dead": queue.previous_dead,
        "items": [{**_item_to_json(queue, item), "wait": wait.as_json()} for item, wait in waits],
    }


def _item_to_json(queue: EntityQueue, item: OpenItem) -> dict[str, Any]:
    last = item.row
    return {
        "item_seq": last.item_seq,
        "last_seq": item.last_seq,
        "event_key": last.event_key,
        "event_type": last.event_type,
        "state": last.decision.value,
        "place": queue.describe_place(item),
        "attempt": last.attempt,
        "due_at": to_rfc3339(last.due_at) if last.due_at is not None else None,
        "reason": last.reason,
        "error_class": last.error_class,
        "cause_seq": last.cause_seq,
        "out_of_order": last.out_of_order,
        "passed_over": item.died,
        "received_at": to_rfc3339(last.received_at) if last.received_at is not None else None,
        "decided_at": to_rfc3339(last.decided_at),
    }


def _describe_due(item: OpenItem, now: datetime) -> str | None:
    due_at = item.row.due_at
    if due_at is None:
        return None
    left_s = (due_at - now).total_seconds()
    return f"in {left_s:.1f} s" if left_s > 0 else f"since {-left_s:.1f} s"


def _describe_queue(place: Place, queue: EntityQueue) -> str:
    reported = [f"{queue.total} open as of row {queue.seq}"]
    if queue.total > len(queue.items):
        reported.append(f"the first {len(queue.items)} are shown")
    if (dead := queue.find_dead_head()) is not None:
        number = dead.row.item_seq
        reported.append(
            f"item {number} is dead and holds the entity: see `payhook dlq show {number}{place.options_again}`"
        )
    if queue.previous_dead:
        reported.append("what runs next sees that an earlier event died")
    return "; ".join(reported)


def catching_up(reported: Mapping[str, Any]) -> list[tuple[str, str]]:
    if not reported:
        return []
    lines = [("arriving", f"{reported['arrival_per_s']:,.0f} events/s")]
    if reported["behind"]:
        lines.append(("backlog", f"{reported['lag']:,} events, {_until_gone(reported)}"))
    return lines


def _until_gone(reported: Mapping[str, Any]) -> str:
    if reported["drain_per_s"] is None:
        return "how long it takes isn't known yet"
    if reported["recover_s"] is None:
        return f"growing: {reported['drain_per_s']:,.0f} events/s are decided"
    forecast = reported["forecast"]
    words = f"; said at {forecast['at']}: gone at {forecast['until']}" if forecast and forecast["until"] else ""
    return f"gone in {reported['recover_s']:,.0f} s at {reported['drain_per_s']:,.0f} events/s{words}"


def held_back(streams: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    lines = (
        (f"{stream.get('stream')} waits", _waits_for(wait, stream)) for stream in streams for wait in waits_of(stream)
    )
    return list(dict.fromkeys(lines))


def _waits_for(wait: StatusWait, stream: Mapping[str, Any]) -> str:
    what = "the whole stream is blocked" if wait.downstream is None else wait.downstream
    counted = "" if wait.downstream is None else f"; {_describe_failures(stream['downstreams'][wait.downstream])}"
    since = "" if wait.since is None else f" since {to_rfc3339(wait.since)}"
    next_try = "" if wait.next_try_at is None else f"; next try at {to_rfc3339(wait.next_try_at)}"
    return f"{what}{since}: {wait.why}{next_try}{counted}"


def _describe_failures(downstream: Mapping[str, Any]) -> str:
    return f"{downstream['failed']:,} of {downstream['calls']:,} calls failed, {downstream['held']:,} weren't made"
