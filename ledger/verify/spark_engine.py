"""Spark as the engine of a verification on a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import SparkSession

from core.location import Location
from ledger.spark import read_table
from ledger.verify.engine import Read, read_prelude


class SparkEngine:
    joined = "listagg(row_hash, '') WITHIN GROUP (ORDER BY seq)"
    portion_rows = sys.maxsize

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        for statement in read_prelude("spark"):
            session.sql(statement)

    def add_delta(self, name: str, location: Location | str, version: int) -> None:
        frame = read_table(self._session, location, version)
        if "offset" in frame.columns:
            frame = frame.selectExpr("*", "offset AS kafka_offset")
        frame.createOrReplaceTempView(name)

    def add_table(self, name: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
        table = pa.Table.from_batches(list(batches), schema)
        self._session.createDataFrame(table).createOrReplaceTempView(name)

    def add_view(self, name: str, sql: str) -> None:
        self._session.sql(sql).createOrReplaceTempView(name)

    def add_result(self, name: str, sql: str) -> None:
        self._session.sql(sql).persist(StorageLevel.MEMORY_AND_DISK).createOrReplaceTempView(name)

    def add_read(self, name: str, sql: str, read: Read, columns: str) -> None:
        frame = self._session.sql(sql).mapInArrow(read, columns)
        frame.persist(StorageLevel.DISK_ONLY).createOrReplaceTempView(name)

    def ask(self, sql: str, rows_max: int | None = None) -> list[dict[str, Any]]:
        frame = self._session.sql(sql)
        rows: list[dict[str, Any]] = (frame if rows_max is None else frame.limit(rows_max)).toArrow().to_pylist()
        return rows
