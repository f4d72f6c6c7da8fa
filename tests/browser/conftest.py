"""A real browser before a real listener, whose ledger the engine decides. Without one they are passed over."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Response, sync_playwright

from stack.servers.ports import free_ports
from tests.console_site import PASSWORD, ConsoleSite, add_people, serving
from tests.dead_letters import DeadLetters, UnknownMerchant

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--no-first-run"),
)
WAIT_MS_MAX = 60_000
NO_BROWSER = "no Chromium is found: `apt-get install chromium`, or name one by PAYHOOK_TEST_CHROMIUM"
_NAMED = os.environ.get("PAYHOOK_TEST_CHROMIUM")
"""Read here: tests themselves see no setting of the machine."""


def chromium() -> str | None:
    """The browser that is named or on the path."""
    return _NAMED or next((path for name in NAMES if (path := shutil.which(name))), None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Before pytest's own, which picks tests by their markers."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.more(reason="every page in a browser; tests/unit/console has what they answer"))
            if chromium() is None:
                item.add_marker(pytest.mark.skip(reason=NO_BROWSER))


@dataclass
class PageEvents:
    """What a page did beside showing itself."""

    complaints: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    bytes_by_url: dict[str, int] = field(default_factory=dict)


@dataclass
class Stage:
    """One site, and browsers before it."""

    url: str
    site: ConsoleSite
    new_context: Callable[[], BrowserContext]

    def sign_in(self, name: str, width: int = 1280, password: str = PASSWORD) -> tuple[Page, PageEvents]:
        page, seen = self.stranger(width)
        page.goto(f"{self.url}/login")
        page.fill("#name", name)
        page.fill("#password", password)
        page.click("main button[type=submit]")
        page.wait_for_url(lambda url: "/login" not in url)
        return page, seen

    def stranger(self, width: int = 1280) -> tuple[Page, PageEvents]:
        """A page of somebody who isn't signed in."""
        page, seen = self.new_context().new_page(), PageEvents()
        page.set_viewport_size({"width": width, "height": 800})
        page.set_default_timeout(WAIT_MS_MAX)

        def complained(message: ConsoleMessage) -> None:
            if message.type in ("error", "warning"):
                seen.complaints.append(message.text)

        def answered(response: Response) -> None:
            if not response.url.startswith(self.url):
                seen.foreign.append(response.url)
            elif response.status == 200:
                seen.bytes_by_url[response.url] = len(response.body())

        page.on("console", complained)
        page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        page.on("response", answered)
        return page, seen


# Of a module: Playwright keeps an event loop going in this thread, and other tests begin loops of their own.
@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Eight of one cause that apply when they are replayed, and one that stays stuck with a follower behind it."""
    data = tmp_path_factory.mktemp("stage") / "data"
    letters = DeadLetters(data)
    add_people(data)
    for number in range(8):
        letters.dies(letters.receive(f"evt_bug{number}"), ZeroDivisionError("division by zero"))
    letters.dies(letters.receive("evt_stuck", payment="pi_stuck"), UnknownMerchant("no merchant for acct_1"), 99)
    letters.receive("evt_behind", payment="pi_stuck")
    letters.batch()
    for _ in range(7):
        letters.advance(30)
    with staged(letters, data) as made:
        yield made


@contextmanager
def staged(letters: DeadLetters, data: Path, **settings: Any) -> Iterator[Stage]:
    """A site over what the letters' engine decided, and browsers before it."""
    (port,) = free_ports(1)
    site = ConsoleSite(letters, data, letters.clock, port, **settings)
    with serving(site, port) as url, deciding(site), sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        yield Stage(url, site, browser.new_context)
        browser.close()


class deciding:  # noqa: N801 - a context manager
    """The stream and its runs go on in a thread, as they do beside a listener."""

    def __init__(self, site: ConsoleSite) -> None:
        self._site = site
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go_on, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)

    def _go_on(self) -> None:
        while not self._stop.wait(0.1):
            self._site.decide()
