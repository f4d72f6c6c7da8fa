"""The read model of dead items: a SQLite file that follows a stream's journal, and may be deleted at any time."""

from dlq.index.dead_letter_index import PAGE_SIZE, DeadLetterIndex
from dlq.index.file import DeadLetterIndexUnreadable
from dlq.index.item import OPEN_STATES, FrozenItem, Item, ItemState, Mark
from dlq.index.joined import JoinedIndex, JoinedPage, name_in
from dlq.index.listing import ITEMS_MAX, PAGE_MAX, Filter, FilterInvalid, Page, Sort
from dlq.index.payload import OriginUnreadable, Payload, Payloads, kafka_origin
from dlq.index.stats import Count, Group, Stats
from dlq.index.story import ItemStory, ItemUnknown, Neighbour

__all__ = [
    "ITEMS_MAX",
    "OPEN_STATES",
    "PAGE_MAX",
    "PAGE_SIZE",
    "Count",
    "DeadLetterIndex",
    "DeadLetterIndexUnreadable",
    "Filter",
    "FilterInvalid",
    "FrozenItem",
    "Group",
    "Item",
    "ItemState",
    "ItemStory",
    "ItemUnknown",
    "JoinedIndex",
    "JoinedPage",
    "Mark",
    "Neighbour",
    "OriginUnreadable",
    "Page",
    "Payload",
    "Payloads",
    "Sort",
    "Stats",
    "kafka_origin",
    "name_in",
]
