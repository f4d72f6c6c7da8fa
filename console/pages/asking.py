"""Questions that take a while: off the event loop, few at a time, and nobody waits for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, TypeVar

from core.errors import PayhookError

AT_ONCE_MAX = 2
"""A question uses all cores already."""

WAITING_MAX = 8
ANSWER_S_MAX = 20.0

Asked = ParamSpec("Asked")
Answer = TypeVar("Answer")


class TooMuchAsked(PayhookError):
    """An answer takes too long, or too many wait for theirs."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(f"{problem}; ask for less (a shorter time, one merchant), or come again in a moment")


class Asking:
    """Runs what blocks in threads of its own. A question that nobody waits for any more still ends in its thread."""

    def __init__(
        self, *, at_once: int = AT_ONCE_MAX, waiting: int = WAITING_MAX, seconds: float = ANSWER_S_MAX
    ) -> None:
        self._threads = ThreadPoolExecutor(at_once, thread_name_prefix="payhook-page")
        self._open = 0
        self._counting = threading.Lock()
        self._open_max = at_once + waiting
        self._seconds = seconds

    async def ask(self, question: Callable[Asked, Answer], *args: Asked.args, **kwargs: Asked.kwargs) -> Answer:
        """
        :raises TooMuchAsked: no answer in time, or too many questions are waiting
        """
        self._begin()
        running = self._threads.submit(question, *args, **kwargs)
        running.add_done_callback(self._end)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(running), self._seconds)
        except TimeoutError:
            raise TooMuchAsked(f"there is no answer after {self._seconds:g} s") from None

    def close(self) -> None:
        """Takes nothing more; what runs ends by itself."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _begin(self) -> None:
        with self._counting:
            if self._open >= self._open_max:
                raise TooMuchAsked(f"{self._open} questions are waiting for their answers")
            self._open += 1

    def _end(self, _: Future[Any]) -> None:
        with self._counting:
            self._open -= 1
