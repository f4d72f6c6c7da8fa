"""`payhook ledger maintain`: small files into large ones, checkpoints, old files off the disk; beside the writer."""
