"""The read model of dead items: a SQLite file that follows a stream's journal, and may be deleted at any time."""

from dead_letters.dead_letter_index import PAGE_SIZE, DeadLetterIndex
from dead_letters.file import DeadLetterIndexUnreadable
from dead_letters.item import OPEN_STATES, FrozenItem, Item, ItemState, Mark
from dead_letters.joined import JoinedIndex, JoinedPage, name_in
from dead_letters.listing import ITEMS_MAX, PAGE_MAX, Filter, FilterInvalid, Page, Sort
from dead_letters.payload import OriginUnreadable, Payload, Payloads, kafka_origin
from dead_letters.stats import Count, Group, Stats
from dead_letters.story import ItemStory, ItemUnknown, Neighbour

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
