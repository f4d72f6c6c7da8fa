"""Arrow's datasets, without pandas.

Arrow looks for pandas when it makes its first scalar, which `pyarrow.dataset` does as it is imported, and imports it
where it is installed: a second of CPU time and tens of megabytes of every process. Spark's driver wants it installed,
and imports it itself. Nothing of ours uses it: Arrow finds none at its import, and never looks again.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType


class _NoPandas(MetaPathFinder):
    def find_spec(self, fullname: str, _path: Sequence[str] | None, _target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError("pandas isn't looked for just now", name=fullname)


@contextlib.contextmanager
def _without_pandas() -> Iterator[None]:
    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


with _without_pandas():
    import pyarrow.dataset as datasets

__all__ = ["datasets"]
