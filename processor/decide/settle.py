"""Between steps 4 and 5: results become decisions, and nothing is decided past what holds its entity back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from core.decision import Decision, ErrorKind
from core.work import Applied, Held
from journal.open_item import OpenItem
from processor.decide.admission import BEHIND, Group, again
from processor.decide.intake import Item
from processor.decide.own_error import attempt
from processor.decide.verdict import FACT_CONFLICT_CLASS, block, die, die_with, duplicate, fail, finish, park
from processor.judge.classify import Failure
from processor.judge.retry import RetryPolicy
from processor.run.execute import Results
from processor.settings import DeadHead


@dataclass(slots=True)
class Settling:
    """Decides the groups of one batch. ``decided`` are the items that get a row from it.

    ``blocked`` is why the stream was blocked before, ``blocking`` are the failures that say that it is now.
    ``is_taken`` says of a fact's key whether an event was applied under it before this batch.
    """

    results: Results
    policy: RetryPolicy
    dead_head: DeadHead
    now: datetime
    blocked: str | None
    random: Callable[[], float]
    is_taken: Callable[[str], bool]
    decided: list[Item] = field(default_factory=list)
    blocking: list[Failure] = field(default_factory=list)

    def settle(self, groups: Iterable[Group]) -> None:
        """Decides every group, then lets each fact go to one event only."""
        groups = list(groups)
        if self.blocked is None:
            self._disprove(item for group in groups for item in group.items if item.suspect)
        results = self.results.by_item.values()
        self.blocking = [result for result in results if isinstance(result, Failure) and result.blocks]
        for group in groups:
            self._settle_group(group)
        self._one_event_a_fact()

    def _disprove(self, suspects: Iterable[Item]) -> None:
        """Since they failed so, others went well: now it is their own failure."""
        for item in suspects:
            result = self.results.by_item.get(item.seq)
            if isinstance(result, Failure) and result.blocks:
                self.results.by_item[item.seq] = replace(result, own=True)

    def _settle_group(self, group: Group) -> None:
        held, dead_head = False, None
        for item in group.items:
            if dead_head is not None:
                die_with(item, dead_head.row)
                item.cause = dead_head
            elif not held:
                held = self._settle_item(item)
                if held and item.row.decision is Decision.DEAD and self.dead_head is DeadHead.DIE_WITH_IT:
                    dead_head = item
            elif item.new:
                park(item, BEHIND)
            else:
                continue
            self.decided.append(item)
        if not held or dead_head is not None:
            self._wake(group.beyond)

    def _wake(self, waiting: OpenItem | None) -> None:
        """The batch had no room for it, and nothing else would take it up: the next one does."""
        if waiting is not None and waiting.row.due_at is None and waiting.row.decision is not Decision.DEAD:
            following = again(waiting)
            park(following, "more wait than one batch takes", self.now)
            self.decided.append(following)

    def _settle_item(self, item: Item) -> bool:
        """Fills in the item's row; true when its followers must wait."""
        held = attempt(self._decide, item)
        if isinstance(held, Failure):
            item.row.handler_version = self.results.handler_version
            die(item, held, blocking=self.dead_head is not DeadHead.CONTINUE)
            return item.row.blocking
        return held

    def _decide(self, item: Item) -> bool:
        if item.known_fact is not None:
            self._fact_is_taken(item, item.known_fact.fact8)
            return False
        if item.condemned is not None:
            item.row.retry_policy = self.policy.text
            die(item, item.condemned, blocking=item.ends_line)
            return item.ends_line
        result = self.results.by_item.get(item.seq)
        if result is None:
            self._park_head(item)
            return True
        if isinstance(result, Failure) and result.blocks:
            block(item, result, self.now)
            return True
        if isinstance(result, Held):
            park(item, f"{result.downstream} {result.reason}", self.now + timedelta(seconds=result.retry_after_s))
            return True
        if not isinstance(result, Failure):
            finish(item, result, self.results.handler_version)
            return False
        item.row.handler_version = self.results.handler_version
        fail(item, result, self.policy, self.dead_head, self.now, self.random)
        return item.row.blocking

    def _park_head(self, item: Item) -> None:
        """Nothing holds it back but the batch itself: it is due again, its attempts unspent."""
        why = self.blocked
        if self.blocking:
            why = f"{self.blocking[0].error_class}: {self.blocking[0].message}"
        told = "the batch's deadline passed before its turn" if why is None else f"the stream is blocked: {why}"[:500]
        park(item, told, self.now)

    def _check_pair(self, item: Item, taken: Mapping[str, str]) -> None:
        """Drops the booking of an undo that nothing was booked for, and of what was undone before it was reported."""
        answer = self.results.by_item.get(item.seq)
        if not isinstance(answer, Applied):
            return
        if answer.after is not None and answer.after not in taken and not self.is_taken(answer.after):
            item.row.postings, item.row.reason = None, f"books nothing: {answer.after} was never booked"
        if answer.unless is not None and (answer.unless in taken or self.is_taken(answer.unless)):
            item.row.postings, item.row.reason = None, f"books nothing: {answer.unless} took it back before"

    def _fact_is_taken(self, item: Item, fact8: bytes) -> None:
        mine = bytes.fromhex(item.row.fact_sha256 or "")[:8]
        if not mine or not fact8 or mine == fact8:
            duplicate(item, Decision.DUPLICATE_FACT, f"{item.row.fact_key} was applied under another event key")
            return
        text = (
            f"{item.row.fact_key} was applied with another amount, currency or account under another event key. "
            "Ask the provider which report holds."
        )
        die(item, Failure(ErrorKind.NRE, FACT_CONFLICT_CLASS, None, text, stack=""), blocking=False)

    def _one_event_a_fact(self) -> None:
        taken: dict[str, str] = {}
        for item in sorted(self.decided, key=lambda item: item.row.item_seq):
            fact = item.row.fact_key
            if fact is None or item.row.decision is not Decision.APPLIED:
                continue
            if fact not in taken:
                self._check_pair(item, taken)
                taken[fact] = item.row.fact_sha256 or ""
                continue
            item.row.postings = item.row.handler_version = None
            self._fact_is_taken(item, bytes.fromhex(taken[fact])[:8])
