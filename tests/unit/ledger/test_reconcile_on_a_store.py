"""What isn't done on an object store says so before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest

from journal.place import LakeUrl
from ledger.reconcile.job import Books, ReconcileImpossible, _pin
from ledger.reconciliations import Reconciliations


def test_a_lake_on_a_store_is_refused_with_a_way_out(tmp_path: Path) -> None:
    lake = LakeUrl("s3://lake/payhook")
    found = Reconciliations(lake / "reconciliation", lake / "reconciliation-runs")
    with pytest.raises(ReconcileImpossible, match="s3://lake/payhook/journal/ledger; a report is compared where"):
        _pin(Books(lake / "journal" / "ledger", lake / "postings", found))
