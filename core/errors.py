"""The error base and the errors that more than one folder raises.

Every leaf stores its fields and writes its own message, which says what to do.
"""

from __future__ import annotations

from typing import Any

from core.decision import ErrorKind


class PayhookError(Exception):
    """The base of every error that payhook raises on purpose. It can be pickled, whatever its ``__init__`` takes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild_error, (type(self), self.args), self.__dict__


def _rebuild_error(error_class: type[PayhookError], args: tuple[Any, ...]) -> PayhookError:
    return error_class.__new__(error_class, *args)


class Unconfirmed(PayhookError):
    """Raised when something was begun and nobody confirmed its end, so it may still take effect.

    What is refused before anything began raises another error.
    """


class SettingError(PayhookError):
    """Raised when a setting is missing or wrong; found at start, never later."""

    def __init__(self, setting: str, problem: str) -> None:
        self.setting = setting
        self.problem = problem
        super().__init__(f"setting {setting}: {problem}")


class Unparseable(PayhookError):
    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"the body can't be read: {problem}")


class OfKind(PayhookError):
    """A handler raises it from an error whose class says too little: ``raise OfKind(kind, problem) from error``.

    It gives the kind; the class that is written down is that of the error behind it.
    """

    def __init__(self, kind: ErrorKind, problem: str) -> None:
        self.kind = kind
        self.problem = problem
        super().__init__(problem)
