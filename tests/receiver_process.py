"""``python -m tests.receiver_process``: the receiver with other limits, in JSON in the variable `LIMITS`."""

from __future__ import annotations

import json
import os
from pathlib import Path

from ingest.limits import ReceiverLimits
from stack.data_folder import make_key
from stack.services.receiver import main
from stack.settings import load_settings

LIMITS = "RECEIVER_LIMITS"

if __name__ == "__main__":
    make_key(Path(load_settings(reaches_lake=False).kafka.record_keys_file))
    main(ReceiverLimits(**json.loads(os.environ[LIMITS])))
