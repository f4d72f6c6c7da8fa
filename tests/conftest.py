"""What every test may use. Tests see no settings of the machine that they run on."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest
from hypothesis import settings as hypothesis_settings

EXIT_STATUS = pytest.StashKey[int]()

# The same examples in each run, fewer than by default, to save time. By hand it is the default, and others each time.
hypothesis_settings.register_profile("ci", deadline=None, derandomize=True, max_examples=30, print_blob=True)
hypothesis_settings.register_profile("dev", deadline=None)
# What tests/faults takes unless HYPOTHESIS_PROFILE names another.
hypothesis_settings.register_profile("faults", deadline=None, max_examples=2_000, print_blob=True)
hypothesis_settings.register_profile("night", deadline=None, max_examples=50_000, print_blob=True)
hypothesis_settings.load_profile("ci" if os.environ.get("CI") else "dev")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    session.config.stash[EXIT_STATUS] = int(exitstatus)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the process as payhook's own processes end: native threads of Kafka's and Delta's libraries may crash an
    interpreter that takes itself apart beneath them, after everything was told.
    """
    if EXIT_STATUS in config.stash and not hasattr(config, "workerinput"):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(config.stash[EXIT_STATUS])


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A developer's PAYHOOK_… variables change no test."""
    for variable in [name for name in os.environ if name.startswith("PAYHOOK_")]:
        monkeypatch.delenv(variable)
    yield
