"""``python -m tests.faults.ledger.on_a_store URL FOLDER``: maintains and verifies a lake on an object store.

In a process of its own, because a JVM finds the jars for it at its start or never. Prints what came of it, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from core.location import LakeUrl
from journal.reader import JournalReader
from ledger.maintain.job import maintain
from ledger.spark import open_read_session
from stack.jars import spark_jars
from tests.integration.ledger.lakes import Lake, job, verified

COMMITS = 12


def main() -> None:
    place, folder = LakeUrl(sys.argv[1]), Path(sys.argv[2])
    lake = Lake.at_place(place)
    lake.commits(COMMITS)
    session = open_read_session("store", "local[2]", "1g", spark_jars(place), folder)
    before = rows(lake)
    with Beside(lake) as beside:
        report = maintain([lake.tables], job(session))
    reported = {
        "tables": {one.table: [one.files_before, one.files_after] for one in report.tables},
        "problems": [one.problem for one in report.tables if one.problem],
        "committed_meanwhile": beside.commits,
        "same_rows": rows(lake)[: len(before)] == before,
        "verified": verified(lake),
        "streamed": streamed(session, str(lake.tables.journal), folder),
        "last_seq": lake.seq,
    }
    sys.stdout.write(json.dumps(reported) + "\n")
    sys.stdout.flush()
    os._exit(0)


class Beside:
    """The lake's writer, which goes on committing while a ``with`` lasts."""

    def __init__(self, lake: Lake) -> None:
        self.commits = 0
        self._lake = lake
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._commit_on)

    def __enter__(self) -> Beside:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _commit_on(self) -> None:
        while not self._stop.wait(1.0):
            self._lake.commit()
            self.commits += 1


def rows(lake: Lake) -> list[Any]:
    return [one for chunk in JournalReader(str(lake.tables.journal)).rows_after(0) for one in chunk]


def streamed(session: SparkSession, journal: str, folder: Path) -> int:
    """How many rows a streaming source gives, as a stream that reads this journal takes them."""
    stream = session.readStream.format("delta").option("startingVersion", 0).option("ignoreChanges", "true")
    sink = stream.load(journal).writeStream.format("memory").queryName("seen").trigger(availableNow=True)
    sink.option("checkpointLocation", str(folder / "checkpoint")).start().awaitTermination()
    return int(session.table("seen").count())


if __name__ == "__main__":
    main()
