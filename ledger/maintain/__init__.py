"""`payhook ledger maintain`: small files into large ones, checkpoints, old files off the disk; beside the writer."""

from ledger.maintain.compact import LazySparkSession
from ledger.maintain.job import MaintenanceJob, MaintenanceReport, TableReport, maintain
from ledger.maintain.tables import LakeTable, MaintenanceRunning, StreamTables, hold_maintenance_lock, list_other_tables

__all__ = [
    "LakeTable",
    "LazySparkSession",
    "MaintenanceJob",
    "MaintenanceReport",
    "MaintenanceRunning",
    "StreamTables",
    "TableReport",
    "hold_maintenance_lock",
    "list_other_tables",
    "maintain",
]
