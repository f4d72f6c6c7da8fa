"""Head of line: whether a few failing events hold back many others, and which of them have done so for too long.

An entity's line is what waits in it, its head first. What is stuck is held against what was done in the last minute.
Two facts together are head-of-line blocking: nearly all of it is stuck (utilisation), and few of the stuck ones fail
themselves (uncommitted). Many heads at once is an outage, which breakers and the whole stream's pause are for.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice

from core.clock import Clock, to_rfc3339
from core.decision import OPEN_DECISIONS, Decision, ErrorKind
from journal.index import Index
from journal.open_item import OpenItem, has_failed, is_delayed
from journal.schema import JournalRow
from processor.errors.classify import MESSAGE_CHARS_MAX, Failure, clean_text
from processor.settings import DeadHead, StreamSettings

BLOCKED_CLASS = "HeadOfLineBlocked"

DONE_WINDOW_S = 60
LOOK_S = 1.0
LOOK_COST_SHARE = 0.02
"""Looks are at least so far apart that they cost no more of the time."""
STEP_S_MAX = 10.0
"""Of the time between two looks: what is longer was a pause of the process, and no fault of a head."""

PLACES_MAX = 100_000
"""Waiting events that one look reads; the next one continues behind them."""
BEHIND_ALL = b"\xff" * 8
"""After an entity's hash: behind all of its places."""
EXAMINED_MAX = 100
"""Heads whose last row is read in one round of looks: half of them the oldest, half those with the longest lines."""
RESOLVED_MAX = 20
SHARE_AGE_S_MIN = 10.0
"""A head that is younger isn't to blame for the stuck share."""


@dataclass(frozen=True, slots=True)
class WaitingLine:
    head_seq: int
    behind: int


@dataclass(frozen=True, slots=True)
class FailingHead:
    """The head of a line that waits for its next try. ``held_s``: how long it has held others back by failing."""

    item: OpenItem
    behind: int
    held_s: float


@dataclass(frozen=True, slots=True)
class HeadFigures:
    """Counts of what waits in lines of more than one event, and shares of what waits or was done.

    ``heads`` hold back ``behind``; ``longest`` is most behind one head. Not among them are lines that wait for the
    stream's delay, and ``dead_heads``, which hold back ``behind_dead`` until a person has decided.

    ``oldest_s``: longest time for which a head has held others back by failing. ``done``: in the last minute.
    ``blocked``: `is_blocking`; then ``named`` is the event with the longest line.
    """

    heads: int = 0
    behind: int = 0
    dead_heads: int = 0
    behind_dead: int = 0
    longest: int = 0
    oldest_s: float = 0.0
    done: int = 0
    blocked: bool = False
    named: str = ""

    @property
    def stuck_count(self) -> int:
        return self.heads + self.behind

    @property
    def stuck_share(self) -> float:
        return self.stuck_count / (self.stuck_count + self.done) if self.stuck_count else 0.0

    @property
    def done_share(self) -> float:
        return 1.0 - self.stuck_share

    @property
    def head_share(self) -> float:
        return self.heads / self.stuck_count if self.heads else 1.0

    def is_blocking(self, settings: StreamSettings) -> bool:
        """Returns whether nearly all of it is stuck, and few of the stuck ones fail themselves."""
        return self.stuck_share > settings.head_utilisation_max and self.head_share < settings.head_uncommitted_min

    @property
    def with_dead(self) -> HeadFigures:
        return replace(self, heads=self.heads + self.dead_heads, behind=self.behind + self.behind_dead)

    def status(self) -> dict[str, float | int | bool | str]:
        shares = {"stuck_share": round(self.stuck_share, 4), "done_share": round(self.done_share, 4)}
        counts = {name: value for name, value in asdict(self).items() if name not in ("blocked", "named")}
        held_by = {"held_by": self.named} if self.named else {}
        return {**counts, "oldest_s": round(self.oldest_s, 1), **shares, "head_of_line": self.blocked, **held_by}


@dataclass(slots=True)
class LookRound:
    """Figures and candidates of the looks from the first line to the last one; mostly one look is enough.

    ``since``: where the next look begins (`take_next_lines`). ``step_s``: time in which the stream wasn't blocked.
    ``figures``: counts alone. ``candidates``: as `choose_examined` has them. ``known``: heads that earlier rounds
    remember. ``longest_dead``: the longest line whose head is dead.
    """

    since: bytes | None = b""
    step_s: float = 0.0
    figures: HeadFigures = HeadFigures()
    candidates: list[WaitingLine] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    longest_dead: WaitingLine | None = None


def group_into_lines(places: Iterable[tuple[bytes, int]]) -> list[WaitingLine]:
    """
    :param places: (entity, item seq), entity by entity, head first
    """
    by_entity: dict[bytes, list[int]] = {}
    for entity, item_seq in places:
        line = by_entity.setdefault(entity, [item_seq, -1])
        line[1] += 1
    return [WaitingLine(head_seq, behind) for head_seq, behind in by_entity.values() if behind]


def take_next_lines(places: Sequence[tuple[bytes, int]]) -> tuple[list[WaitingLine], bytes | None]:
    """Returns the lines that one look has read, and the hash of the entity at which the next one begins; None: that was
    all.

    The last of `PLACES_MAX` places may cut an entity's line: that entity is left to the next look, unless it fills this
    one alone.
    """
    if len(places) < PLACES_MAX:
        return group_into_lines(places), None
    last = places[-1][0]
    complete = [place for place in places if place[0] != last]
    return (group_into_lines(complete), last) if complete else (group_into_lines(places), last + BEHIND_ALL)


def choose_examined(candidates: Sequence[WaitingLine]) -> list[WaitingLine]:
    if len(candidates) <= EXAMINED_MAX:
        return list(candidates)
    half = EXAMINED_MAX // 2
    oldest = sorted(candidates, key=lambda line: line.head_seq)[:half]
    longest = sorted(candidates, key=lambda line: -line.behind)[:half]
    return list(dict.fromkeys(oldest + longest))


def find_past_limits(heads: Iterable[FailingHead], figures: HeadFigures, settings: StreamSettings) -> list[FailingHead]:
    """Finds the heads to dead-letter now, `RESOLVED_MAX` at most: those past the age limit.

    Where followers are handled past a dead head, heads with the longest lines are added until the lines aren't blocked.
    """
    longest_first = sorted(heads, key=lambda head: -head.behind)
    past = [head for head in longest_first if 0 < settings.head_age_max_s <= head.held_s]
    left = _subtract_heads(figures, past)
    for head in longest_first:
        if settings.dead_head is DeadHead.WAIT or not left.is_blocking(settings):
            break
        if head.held_s >= SHARE_AGE_S_MIN and head not in past:
            past.append(head)
            left = _subtract_heads(left, [head])
    return past[:RESOLVED_MAX]


def _subtract_heads(figures: HeadFigures, heads: Sequence[FailingHead | WaitingLine]) -> HeadFigures:
    return replace(figures, heads=figures.heads - len(heads), behind=figures.behind - _count_behind(heads))


def _count_dead_apart(figures: HeadFigures, dead: Sequence[WaitingLine]) -> HeadFigures:
    left = _subtract_heads(figures, dead)
    return replace(left, dead_heads=left.dead_heads + len(dead), behind_dead=left.behind_dead + _count_behind(dead))


def _count_behind(heads: Iterable[FailingHead | WaitingLine]) -> int:
    return sum(head.behind for head in heads)


def make_head_failure(head: FailingHead, dead_head: DeadHead) -> Failure:
    row = head.item.row
    then = {
        DeadHead.CONTINUE: "They continue without it",
        DeadHead.WAIT: "They wait until a person decides it",
    }[dead_head]
    text = (
        f"{row.event_key} held back {head.behind} later events of its entity for {head.held_s:.0f} s. {then}. It "
        f"failed {row.attempt} times, last at {to_rfc3339(row.decided_at)}: {row.reason}. Fix that, then replay it."
    )
    return Failure(
        kind=ErrorKind.NRE,
        error_class=BLOCKED_CLASS,
        error_code=row.error_code,
        message=clean_text(text, MESSAGE_CHARS_MAX),
        stack=row.error_stack or "",
        log_lines=row.log_lines,
    )


class DoneWindow:
    def __init__(self) -> None:
        self._seconds: deque[tuple[int, int]] = deque()

    def add(self, count: int, now_s: float) -> None:
        self.count(now_s)
        second = int(now_s)
        if self._seconds and self._seconds[-1][0] == second:
            count += self._seconds.pop()[1]
        self._seconds.append((second, count))

    def count(self, now_s: float) -> int:
        while self._seconds and self._seconds[0][0] <= now_s - DONE_WINDOW_S:
            self._seconds.popleft()
        return sum(count for _, count in self._seconds)


class HeadOfLine:
    def __init__(self, index: Index, settings: StreamSettings, clock: Clock) -> None:
        self._index = index
        self._settings = settings
        self._clock = clock
        self._done = DoneWindow()
        self._held_s: dict[int, float] = {}
        self._dead: set[int] = set()
        self._round = LookRound()
        self._looked_at = self._look_at = clock.monotonic_s()
        self.figures = HeadFigures()

    def on_commit(self, rows: Sequence[JournalRow]) -> None:
        done = sum(row.decision not in OPEN_DECISIONS for row in rows)
        if done:
            self._done.add(done, self._clock.monotonic_s())
        if self._dead:
            self._dead.difference_update(row.item_seq for row in rows)

    def find_overdue_heads(self, *, stream_blocked: bool) -> Mapping[int, tuple[OpenItem, Failure]]:
        """Finds the heads to dead-letter in this batch, and why, by item.

        Returns none while the whole stream is blocked: then a waiting head isn't at fault.
        """
        began = self._clock.monotonic_s()
        if began < self._look_at:
            return {}
        step_s, self._looked_at = min(began - self._looked_at, STEP_S_MAX), began
        self._round.step_s += 0.0 if stream_blocked else step_s
        self._read_next_lines()
        heads = self._end_round(began) if self._round.since is None else []
        self._look_at = began + max(LOOK_S, (self._clock.monotonic_s() - began) / LOOK_COST_SHARE)
        if stream_blocked:
            return {}
        past = find_past_limits(heads, self.figures, self._settings)
        return {head.item.row.item_seq: (head.item, make_head_failure(head, self._settings.dead_head)) for head in past}

    def _read_next_lines(self) -> None:
        current = self._round
        places = (
            list(islice(self._index.read_places(current.since or b""), PLACES_MAX)) if self._index.open_count() else []
        )
        new_lines, current.since = take_next_lines(places)
        waiting = [line for line in new_lines if line.head_seq not in self._dead]
        current.known |= {line.head_seq for line in new_lines} & (self._dead | self._held_s.keys())
        current.candidates = choose_examined([*current.candidates, *waiting])
        current.longest_dead = max(
            (line for line in (current.longest_dead, *new_lines) if line is not None and line.head_seq in self._dead),
            key=lambda line: line.behind,
            default=None,
        )
        seen = current.figures
        all_alive = replace(seen, heads=seen.heads + len(new_lines), behind=seen.behind + _count_behind(new_lines))
        current.figures = _count_dead_apart(all_alive, [line for line in new_lines if line.head_seq in self._dead])

    def _end_round(self, now_s: float) -> list[FailingHead]:
        ended, self._round = self._round, LookRound()
        self._keep_only(ended.known)
        looked_up = [(line, self._index.open_item(line.head_seq)) for line in ended.candidates]
        lines = [(line, item) for line, item in looked_up if item is not None]
        self._dead |= {line.head_seq for line, item in lines if item.row.decision is Decision.DEAD}
        heads = [
            FailingHead(item, line.behind, self._add_held_s(line.head_seq, ended.step_s))
            for line, item in lines
            if has_failed(item.row)
        ]
        dead = [line for line in ended.candidates if line.head_seq in self._dead]
        # These wait for the stream's delay, and hold back nobody by that.
        on_purpose = [line for line, item in lines if is_delayed(item.row)]
        held = [line for line in ended.candidates if line not in on_purpose]
        self.figures = self._judge_figures(
            replace(
                _subtract_heads(_count_dead_apart(ended.figures, dead), on_purpose),
                longest=max((line.behind for line in held if line.head_seq not in self._dead), default=0),
                oldest_s=max((head.held_s for head in heads), default=0.0),
                done=self._done.count(now_s),
            ),
            [*held, *([ended.longest_dead] if ended.longest_dead else [])],
        )
        return heads

    def _judge_figures(self, figures: HeadFigures, lines_seen: Sequence[WaitingLine]) -> HeadFigures:
        followers_wait = self._settings.dead_head is DeadHead.WAIT
        if not (figures.with_dead if followers_wait else figures).is_blocking(self._settings):
            return figures
        held = [line for line in lines_seen if followers_wait or line.head_seq not in self._dead]
        longest = max(held, key=lambda line: line.behind, default=None)
        item = None if longest is None else self._index.open_item(longest.head_seq)
        return replace(figures, blocked=True, named="" if item is None else item.row.event_key or "")

    def _add_held_s(self, head_seq: int, step_s: float) -> float:
        before = self._held_s.get(head_seq)
        self._held_s[head_seq] = 0.0 if before is None else before + step_s
        return self._held_s[head_seq]

    def _keep_only(self, heads: set[int]) -> None:
        self._dead &= heads
        self._held_s = {seq: held for seq, held in self._held_s.items() if seq in heads}
