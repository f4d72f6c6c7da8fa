"""What operators order: commands, selections and their runs, approvals, and the audit log."""
