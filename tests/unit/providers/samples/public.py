"""The public samples: other people's, which aren't part of this repository. What each is called and books is in
``public.tsv``, read from the payloads by hand.
"""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from providers import Request

TABLE = Path(__file__).with_suffix(".tsv")
UNREADABLE, UNKNOWN = "unreadable", "?"
"""Instead of what an event books: the whole webhook is poison, or its money can't be told."""


class PublicEvent(NamedTuple):
    """A line of the table: one event of a sample. ``books`` as in `table.Webhook`, empty where nothing moved.

    ``sample``: its file, below the folder of samples and without its end. ``endpoint``: the mode of the endpoint that
    it is sent to. The keys begin with the provider's name.
    """

    sample: str
    endpoint: str
    mode: str
    event_key: str
    entity_key: str
    occurred_at: str
    books: str
    note: str

    @property
    def provider(self) -> str:
        return self.event_key.partition(":")[0]


def public_events() -> dict[str, list[PublicEvent]]:
    """By sample, in the order of the events in it."""
    with TABLE.open(encoding="utf-8", newline="") as lines:
        read = [PublicEvent(**line) for line in csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)]
    return {sample: list(events) for sample, events in groupby(read, key=lambda event: event.sample)}


def delivered(samples: Path, sample: str) -> Request:
    """A sample as its provider delivers it: of some only a part is published, so the rest is ours."""
    [file] = [file for file in (samples / sample).parent.iterdir() if file.stem == Path(sample).name]
    body, headers = file.read_bytes(), []
    if sample.startswith("adyen/vector_py_"):
        body = b'{"live":"false","notificationItems":[{"NotificationRequestItem":' + body.strip() + b"}]}"
    if sample.startswith("paddle/entity_"):
        event_type = sample.removeprefix("paddle/entity_").encode()
        envelope = b'{"event_id":"evt_of_ours","event_type":"%b","occurred_at":"2024-04-12T10:18:49.5Z",'
        body = (envelope + b'"notification_id":"ntf_of_ours","data":%b}') % (event_type, body)
    if sample.startswith("standardwebhooks/"):
        headers = [(b"webhook-id", b"msg_1"), (b"webhook-timestamp", b"1769860800"), (b"webhook-signature", b"v1,")]
    return Request(body, headers)
