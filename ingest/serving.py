"""How uvicorn serves the receiver; load tests serve their baselines in the same way."""

from __future__ import annotations

from typing import Any

SERVING: dict[str, Any] = {
    "loop": "uvloop",
    "http": "httptools",
    "access_log": False,
    "log_config": None,
    "server_header": False,
    "proxy_headers": False,
}
"""httptools refuses what smuggles requests; nobody's word is taken for where a request comes from."""
