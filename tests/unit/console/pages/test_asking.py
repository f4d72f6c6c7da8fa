"""A question costs its own time: the event loop goes on, and a question that comes too late is answered with that."""

from __future__ import annotations

import asyncio
import threading

import pytest

from console.pages.place import QuestionRunner, TooMuchAsked


def test_the_event_loop_goes_on_while_a_question_is_answered() -> None:
    asking, may_end = QuestionRunner(), threading.Event()

    async def both() -> str:
        answer = asyncio.ensure_future(asking.ask(lambda: "late" if may_end.wait(60) else "never"))
        await asyncio.sleep(0)
        assert not answer.done()
        may_end.set()
        return await answer

    assert asyncio.run(both()) == "late"


def test_an_answer_that_takes_too_long_is_not_waited_for() -> None:
    asking, may_end = QuestionRunner(seconds=0.05), threading.Event()
    with pytest.raises(TooMuchAsked, match=r"no answer after 0\.05 s; ask for less"):
        asyncio.run(asking.ask(may_end.wait, 60))
    may_end.set()


def test_only_so_many_wait_and_a_free_place_is_given_again() -> None:
    asking, may_end = QuestionRunner(at_once=1, waiting=1), threading.Event()

    async def three() -> None:
        first = [asyncio.ensure_future(asking.ask(may_end.wait, 60)) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TooMuchAsked, match="2 questions are waiting"):
            await asking.ask(int)
        may_end.set()
        await asyncio.gather(*first)

    async def again() -> int:
        while True:
            try:
                return await asking.ask(int)
            except TooMuchAsked:
                await asyncio.sleep(0.01)

    asyncio.run(three())
    assert asyncio.run(asyncio.wait_for(again(), 60)) == 0


def test_a_questions_own_error_comes_through() -> None:
    with pytest.raises(ZeroDivisionError):
        asyncio.run(QuestionRunner().ask(lambda: 1 // 0))
