"""The read model of dead items: a SQLite file that follows a stream's journal, and may be deleted at any time."""

from dlq.board.board import PAGE_SIZE, DeadLetterIndex
from dlq.board.file import DeadLetterIndexUnreadable
from dlq.board.fingerprint import Cause
from dlq.board.follow import Followed
from dlq.board.item import OPEN_STATES, Item, ItemState, Mark, Seen
from dlq.board.listing import ITEMS_MAX, PAGE_MAX, Filter, FilterInvalid, Page, Sort
from dlq.board.origin import OriginUnreadable, kafka_origin
from dlq.board.payload import Fates, Origin, Payload
from dlq.board.prices import Amounts
from dlq.board.stats import GROUPS_MAX, Count, Group, Hour, Stats
from dlq.board.story import Act, Attempt, ItemStory, ItemUnknown, Neighbour, Some
from dlq.board.told import groups_told, item_told, page_told, stats_told, story_told

__all__ = [
    "GROUPS_MAX",
    "ITEMS_MAX",
    "OPEN_STATES",
    "PAGE_MAX",
    "PAGE_SIZE",
    "Act",
    "Amounts",
    "Attempt",
    "Cause",
    "Count",
    "DeadLetterIndex",
    "DeadLetterIndexUnreadable",
    "Fates",
    "Filter",
    "FilterInvalid",
    "Followed",
    "Group",
    "Hour",
    "Item",
    "ItemState",
    "ItemStory",
    "ItemUnknown",
    "Mark",
    "Neighbour",
    "Origin",
    "OriginUnreadable",
    "Page",
    "Payload",
    "Seen",
    "Some",
    "Sort",
    "Stats",
    "groups_told",
    "item_told",
    "kafka_origin",
    "page_told",
    "stats_told",
    "story_told",
]
