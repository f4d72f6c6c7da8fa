"""Takes operators' orders: commands, selections and their runs, approvals, and the audit log."""
