"""The read model of dead items: a SQLite file that follows a stream's journal, and may be deleted at any time."""

from dlq.board.board import PAGE_SIZE, Board
from dlq.board.file import BoardUnreadable
from dlq.board.filter import ITEMS_MAX, Filter, FilterInvalid, Sort
from dlq.board.fingerprint import Cause
from dlq.board.follow import Followed
from dlq.board.groups import GROUPS_MAX, Group
from dlq.board.item import OPEN_STATES, Item, ItemState, Mark, Seen
from dlq.board.listing import PAGE_MAX, Page
from dlq.board.payload import Fates, Origin, OriginUnreadable, Payload, kafka_origin
from dlq.board.prices import Amounts
from dlq.board.stats import Count, Hour, Stats
from dlq.board.story import Act, Attempt, ItemStory, ItemUnknown, Neighbour
from dlq.settings import BoardSettings

__all__ = [
    "GROUPS_MAX",
    "ITEMS_MAX",
    "OPEN_STATES",
    "PAGE_MAX",
    "PAGE_SIZE",
    "Act",
    "Amounts",
    "Attempt",
    "Board",
    "BoardSettings",
    "BoardUnreadable",
    "Cause",
    "Count",
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
    "Sort",
    "Stats",
    "kafka_origin",
]
