"""The read model of dead items: a SQLite file that follows a stream's journal, and may be deleted at any time."""

from dlq.index.dead_letter_index import PAGE_SIZE, DeadLetterIndex
from dlq.index.file import DeadLetterIndexUnreadable
from dlq.index.fingerprint import Cause
from dlq.index.follow import Followed
from dlq.index.item import OPEN_STATES, Item, ItemState, Mark, Seen
from dlq.index.listing import ITEMS_MAX, PAGE_MAX, Filter, FilterInvalid, Page, Sort
from dlq.index.payload import Fates, Origin, OriginUnreadable, Payload, kafka_origin
from dlq.index.prices import Amounts
from dlq.index.shards import ShardedIndex, ShardGroup, ShardItem, ShardsPage, name_in
from dlq.index.stats import GROUPS_MAX, Count, Group, Hour, Stats
from dlq.index.story import Act, Attempt, ItemStory, ItemUnknown, Neighbour

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
    "ShardGroup",
    "ShardItem",
    "ShardedIndex",
    "ShardsPage",
    "Sort",
    "Stats",
    "kafka_origin",
    "name_in",
]
