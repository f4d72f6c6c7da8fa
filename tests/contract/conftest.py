"""Where tables are: on a disk and on an object store alike."""

from tests.object_store.fixtures import object_store, place, store_folder

__all__ = ["object_store", "place", "store_folder"]
