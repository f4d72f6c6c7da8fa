"""`payhook ledger maintain`: small files into large ones, checkpoints, old files off the disk; beside the writer."""

from ledger.maintain.job import Job, maintain
from ledger.maintain.lock import MaintenanceRunning, sole_maintenance
from ledger.maintain.report import Report, TableReport
from ledger.maintain.session import Session
from ledger.maintain.tables import LakeTable, StreamTables, other_tables

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
