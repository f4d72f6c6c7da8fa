"""What a handler has where its stream decides (`core.work.DriverSide`), and what of it goes with each job."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from core.files import FilesToSend, SentFiles, use_sent
from core.work import DriverSide, Ignored


class HandlerFiles:
    """A handler's files. Where executors are on other machines (``travel``) they go with each job: pickled, this is
    what they hold at that moment.
    """

    def __init__(self, side: DriverSide | None = None, *, travel: bool = False) -> None:
        self._side = side
        self._travel = travel
        self._to_send = FilesToSend()
        self._sent: SentFiles | None = None

    def use(self) -> None:
        """On an executor, before its handler is called."""
        if self._sent is not None:
            use_sent(self._sent)

    def keep_notes(self, results: Iterable[object]) -> None:
        """On the driver, before the results are committed."""
        if self._side is None:
            return
        for one in results:
            if isinstance(one, Ignored) and one.note:
                self._side.keep(one.note)

    def __reduce__(self) -> tuple[Any, ...]:
        if self._side is None or not self._travel:
            return _on_executor, (self._sent,)
        return _on_executor, (self._to_send.now(self._side.files()),)


def _on_executor(sent: SentFiles | None) -> HandlerFiles:
    files = HandlerFiles()
    files._sent = sent  # noqa: SLF001 - its own module
    return files
