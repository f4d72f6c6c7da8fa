"""What every test may use. Tests see no settings of the machine that they run on."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator

import pytest

from tests import examples

EXIT_STATUS = pytest.StashKey[int]()

examples.load()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[EXIT_STATUS] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the process as payhook's own processes end: native threads of Kafka's and Delta's libraries may crash an
    interpreter that takes itself apart beneath them, after everything was reported. A worker has reported all by
    then, too; it is gone before the summary, and with it what a client that lost its broker would still print.
    """
    if EXIT_STATUS in config.stash:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash[EXIT_STATUS])


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A developer's PAYHOOK_… variables change no test, nor does the terminal, by which tables and bars are drawn."""
    monkeypatch.setenv("TERM", "xterm")
    for variable in [name for name in os.environ if name.startswith("PAYHOOK_")]:
        monkeypatch.delenv(variable)
    yield


@pytest.fixture(autouse=True)
def the_same_chance() -> None:
    """What the code under test draws from `random` itself is the same in each run."""
    random.seed(0)
