"""``python -m tests.object_store.one_at_a_time PORT``: moto's S3 over HTTP, one request at a time.

moto looks whether an object is there and then puts it, as two steps: of requests that it answers side by side two may
win. One at a time it is what S3 is: a conditional put is atomic.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from stack.servers.ports import LOOPBACK


class OneAtATime:
    """A WSGI application whose requests wait for one another."""

    def __init__(self, app: Callable[..., Iterable[bytes]]) -> None:
        self._app = app
        self._lock = threading.Lock()

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        with self._lock:
            return list(self._app(environ, start_response))


def main() -> None:
    app = OneAtATime(DomainDispatcherApplication(create_backend_app))
    make_server(LOOPBACK, int(sys.argv[1]), app, threaded=True).serve_forever()


if __name__ == "__main__":
    main()
