"""``make pictures``: docs/images from the running product, so that README shows what there is.

The demo runs, and while its stack is up a browser looks at the pages; its last lines are a picture too. What the
pictures show is written beside them (``pictures.json``): a test compares that with the product of now.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import secrets
import shutil
import sys
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from core.clock import SystemClock
from core.errors import PayhookError
from load.client import RunningStack
from load.demo.story import Demo
from load.embedded import payhook
from load.open_loop import post_at_rate
from load.scratch import SCRATCH_HELP, NotScratch, empty_scratch_folder
from load.traffic import Traffic
from stack.machine import CHECKOUT, STATE

FOLDER = CHECKOUT / "docs" / "images"
SHOWN = "pictures.json"
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
BROWSER_VARIABLE = "PAYHOOK_TEST_CHROMIUM"
LABELS = "links => links.map(link => link.firstChild.textContent.trim())"
"""Of the menu's links, without the badges behind them."""
USER = "ada"
SIZE = {"width": 1280, "height": 800}
PAGES: Mapping[str, str] = {"overview.png": "/", "dead-letter.png": "/dlq"}
"""A picture's name, and the page that it shows. The second is left for the first dead event on it."""
WIDTH_CHARS = 104
_FONT_FACE = re.compile(r"\s*@font-face \{.*?\}", re.DOTALL)
"""Of another host; the reader's own monospaced font does."""
CALM_PER_S, CALM_S = 20.0, 70.0
"""A little longer than the minute that the pages look back."""


class NoBrowser(PayhookError):
    """There is no Chromium."""

    def __init__(self) -> None:
        super().__init__(f"no Chromium is found: `apt-get install chromium`, or name one by {BROWSER_VARIABLE}")


@dataclass
class Photographer:
    """Takes the pictures of a stack's pages."""

    folder: Path
    shown: dict[str, Any] = field(default_factory=dict)

    def take(self, data_dir: Path) -> None:
        """
        :raises NoBrowser: there is none
        """
        password = secrets.token_urlsafe(18)
        words = ("users", "add", USER, "--role", "admin", "--role", "finance", "--password-stdin")
        added = payhook(*words, "--data", str(data_dir), stdin=password + "\n")
        assert added.returncode == 0, added.stdout + added.stderr
        self._calm_traffic(data_dir)
        self._photograph(RunningStack(data_dir).endpoints["ops"], password)

    def _calm_traffic(self, data_dir: Path) -> None:
        """Sends calm traffic: what the pages then say of the last minute is of a stack that nobody kills."""
        traffic = Traffic(data_dir / "secrets", SystemClock(), random.Random(), prefix=uuid.uuid4().hex[:6])
        ingest = str(RunningStack(data_dir).endpoints["ingest"])
        asyncio.run(post_at_rate(ingest, traffic.next, CALM_PER_S, CALM_S))

    def _photograph(self, url: str, password: str) -> None:
        # Here: a development package, and a browser that nothing else in `load` needs.
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=find_browser(), args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_context(viewport=SIZE, color_scheme="light").new_page()  # type: ignore[arg-type]
            page.goto(f"{url}/login")
            page.fill("#name", USER)
            page.fill("#password", password)
            page.click("main button[type=submit]")
            for name, path in PAGES.items():
                page.goto(f"{url}{path}")
                if path == "/dlq":
                    page.click("main a[href^='/dlq/items/']")
                page.wait_for_load_state("networkidle")
                page.screenshot(path=self.folder / name)
                self.shown[name] = {
                    "menu": page.locator("header nav a").evaluate_all(LABELS),
                    "heading": page.locator("h1").first.inner_text(),
                }
            browser.close()


def find_browser() -> str:
    """
    :raises NoBrowser: there is none
    """
    named = os.environ.get(BROWSER_VARIABLE) or next((path for one in BROWSERS if (path := shutil.which(one))), None)
    if named is None:
        raise NoBrowser
    return named


def main(words: Sequence[str] | None = None) -> int:
    """Exit 1 where the demo didn't come out right, 2 where it couldn't begin: the pictures of before are left then."""
    parser = argparse.ArgumentParser(prog="load.pictures", description=__doc__)
    parser.add_argument("--data", type=Path, default=STATE / "demo", help=SCRATCH_HELP)
    wanted = parser.parse_args(words)
    try:
        find_browser()
        empty_scratch_folder(wanted.data, "payhook demo")
    except (NoBrowser, NotScratch) as missing:
        print(missing, file=sys.stderr)
        return 2
    taken = wanted.data.with_name(f"{wanted.data.name}-pictures")
    taken.mkdir(parents=True, exist_ok=True)
    console, photographer = Console(record=True, width=WIDTH_CHARS), Photographer(taken)

    def take(data_dir: Path) -> None:
        photographer.take(data_dir)
        console.export_text(clear=True)  # of the demo's lines the last ones are shown

    if not Demo(wanted.data, console, take).run():
        return 1
    svg = _FONT_FACE.sub("", console.export_svg(title="make demo", unique_id="demo"))
    (taken / "demo.svg").write_text(svg, "utf-8")
    (taken / SHOWN).write_text(json.dumps(photographer.shown, indent=1) + "\n", "utf-8")
    shutil.copytree(taken, FOLDER, dirs_exist_ok=True)
    shutil.rmtree(taken)
    return 0


if __name__ == "__main__":
    sys.exit(main())
