"""What is done on the command line: recorded in the audit log, and sent to the processor."""

from __future__ import annotations

import os
import pwd
from functools import cache, partial
from typing import Any

from cli.place import Place
from core.clock import SystemClock
from core.kafka import open_producer
from core.routing import topics_of
from dlq.audit_log import AuditLog
from dlq.orders import Orders
from dlq.recorder import Recorder

CHANNEL = "cli"
APPROVED_WHERE = "an administrator who isn't you approves it: /ledger/reversals at the management listener"


def this_account() -> str:
    """Who runs the command: the account of its real uid. No variable says another one, as LOGNAME could."""
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def orders(place: Place) -> Orders:
    """Sends commands to the mode that is looked at."""
    return Orders(cache(partial(producer, place)), topics_of(place.mode).control, recorder(place))


def producer(place: Place) -> Any:
    """Of Kafka, for orders. Any: the client's stubs and the port agree only on arguments given by name."""
    return open_producer(place.kafka(), {"acks": "all", "log_level": 0}, place.record_keys())


def recorder(place: Place) -> Recorder:
    """Records what is done here, of `this_account`, in the audit log."""
    return Recorder(AuditLog(place.layout.audit_log), SystemClock(), CHANNEL)
