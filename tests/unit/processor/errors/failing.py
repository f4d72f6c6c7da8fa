"""Errors as libraries raise them, and a rule about them."""

from __future__ import annotations

from enum import Enum
from typing import Any

import httpx2

from core.decision import ErrorKind

NRE, SLE, SNBE, SBE = ErrorKind.NRE, ErrorKind.SLE, ErrorKind.SNBE, ErrorKind.SBE


class Busy(Exception):
    kind = SLE


class Closed(Exception):
    kind = NRE


class DriverError(Exception):
    """As a database driver has them: one class for all, distinguished by text and code."""

    def __init__(self, text: str, sqlstate: str | None = None, orig: Exception | None = None) -> None:
        self.sqlstate = sqlstate
        self.orig = orig
        super().__init__(text)


class OperationalDriverError(DriverError):
    pass


class Refused(Exception):
    def __init__(self, status_code: int) -> None:
        self.response = httpx2.Response(status_code)
        super().__init__(f"answered {status_code}")


class Grpc(Enum):
    UNAVAILABLE = (14, "unavailable")


def raised(error: BaseException, *, over: BaseException | None = None, cause: BaseException | None = None) -> Any:
    """``error`` as it is after it was raised: while ``over`` was handled, from ``cause``."""
    try:
        try:
            if over is not None:
                raise over
        finally:
            if cause is not None:
                raise error from cause
            raise error
    except BaseException as caught:
        return caught


def hidden(error: BaseException, over: BaseException) -> BaseException:
    """``raise error from None`` while ``over`` was handled."""
    try:
        try:
            raise over
        except BaseException:
            raise error from None
    except BaseException as caught:
        return caught


def with_code(name: str, code: object) -> Exception:
    error = ValueError("with a code")
    setattr(error, name, code)
    return error


def rule(**one: Any) -> dict[str, Any]:
    return {"rules": {"one": one}}
