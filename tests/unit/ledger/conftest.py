"""The engine that asks the checks' questions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledger.verify.duckdb_engine import DuckDb, duckdb_engine


@pytest.fixture(scope="module")
def duckdb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DuckDb]:
    with duckdb_engine(tmp_path_factory.mktemp("engine"), "500m") as engine:
        yield engine
