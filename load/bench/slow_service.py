"""A downstream with a known capacity: so many requests at a time, each a fixed time; the others queue, for ever."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class SlowService:
    """Serves on loopback within ``with``. A request whose client has given up is served all the same: that is what
    makes a service useless when it is asked for more than it can do.
    """

    def __init__(self, at_once: int, each_s: float) -> None:
        self._at_once = at_once
        self._each_s = each_s
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._stop: asyncio.Event
        self.url = ""
        self.served = 0

    def __enter__(self) -> SlowService:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        self._stop = asyncio.Event()
        self._free = asyncio.Semaphore(self._at_once)
        server = await asyncio.start_server(self._connection, "127.0.0.1", 0, backlog=1_024)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        self._ready.set()
        await self._stop.wait()
        server.close()
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()

    async def _connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                await reader.readuntil(b"\r\n\r\n")
                async with self._free:
                    await asyncio.sleep(self._each_s)
                self.served += 1
                writer.write(ANSWER)
                await writer.drain()
        writer.close()
