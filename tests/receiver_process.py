"""``python -m tests.receiver_process``: the receiver with other limits, in JSON in the variable `LIMITS`."""

from __future__ import annotations

import json
import os

from ingest.limits import Limits
from stack.services.receiver import main

LIMITS = "RECEIVER_LIMITS"

if __name__ == "__main__":
    main(Limits(**json.loads(os.environ[LIMITS])))
