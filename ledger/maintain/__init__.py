"""`payhook ledger maintain`: small files into large ones, checkpoints, old files off the disk; beside the writer."""

from ledger.maintain.compact import Session
from ledger.maintain.job import Job, Report, TableReport, maintain
from ledger.maintain.tables import LakeTable, MaintenanceRunning, StreamTables, other_tables, sole_maintenance

__all__ = [
    "Job",
    "LakeTable",
    "MaintenanceRunning",
    "Report",
    "Session",
    "StreamTables",
    "TableReport",
    "maintain",
    "other_tables",
    "sole_maintenance",
]
