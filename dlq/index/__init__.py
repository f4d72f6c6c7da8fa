"""The read model of dead items: a SQLite file that follows a stream's journal, and may be deleted at any time."""

from dlq.index.dead_letter_index import PAGE_SIZE, DeadLetterIndex
from dlq.index.file import DeadLetterIndexUnreadable
from dlq.index.fingerprint import Cause
from dlq.index.follow import Followed
from dlq.index.item import OPEN_STATES, Item, ItemState, Mark, Seen
from dlq.index.listing import ITEMS_MAX, PAGE_MAX, Filter, FilterInvalid, Page, Sort
from dlq.index.origin import OriginUnreadable, kafka_origin
from dlq.index.payload import Fates, Origin, Payload
from dlq.index.prices import Amounts
from dlq.index.stats import GROUPS_MAX, Count, Group, Hour, Stats
from dlq.index.story import Act, Attempt, ItemStory, ItemUnknown, Neighbour, Some
from dlq.index.told import groups_told, item_told, page_told, stats_told, story_told

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
