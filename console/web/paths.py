"""Where a browser may be sent: to the listener's own pages and nowhere else."""

from __future__ import annotations

import re
from urllib.parse import quote

from starlette.requests import Request

LOCAL_PATH = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")
"""A path of ours: printable, without backslashes, and not the beginning of another host's address."""

PATH_CHARS_MAX = 2_000
HOME = "/"


def local_path(wanted: str) -> str:
    """The path, if it is one of ours; else the first page's."""
    return wanted if len(wanted) <= PATH_CHARS_MAX and LOCAL_PATH.fullmatch(wanted) else HOME


def path_of(request: Request) -> str:
    """Path and query of a request, fit for a link."""
    query = request.scope["query_string"].decode("latin-1")
    return local_path(quote(request.scope["path"]) + (f"?{query}" if query else ""))
