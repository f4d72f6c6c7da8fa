"""Records what is done on the command line in the audit log, and sends it to the processor."""

from __future__ import annotations

import os
import pwd
from functools import cache, partial
from typing import Any

from cli.place import Place
from core.clock import SystemClock
from core.kafka import open_producer
from core.routing import topics_of
from operations.audit_log import AuditLog
from operations.orders import OrderSender
from operations.recorder import Recorder

CHANNEL = "cli"
ASK_APPROVAL = (
    "Needs approval: ask another admin to open /ledger/reversals on the management listener. Nothing is booked yet."
)


def this_account() -> str:
    """Returns the account of the process's real uid: who runs the command. No variable says another one, as LOGNAME
    could.
    """
    uid = os.getuid()
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"


def open_orders(place: Place) -> OrderSender:
    return OrderSender(cache(partial(open_order_producer, place)), topics_of(place.mode).control, open_recorder(place))


def open_order_producer(place: Place) -> Any:
    """Opens Kafka's producer for orders. Any: the client's stubs and the port agree only on arguments given by name."""
    return open_producer(place.kafka(), {"acks": "all", "log_level": 0}, place.record_keys())


def open_recorder(place: Place) -> Recorder:
    return Recorder(AuditLog(place.layout.audit_log), SystemClock(), CHANNEL)
