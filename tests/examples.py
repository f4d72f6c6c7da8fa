"""How many examples the property tests take. Which ones says the seed alone: pyproject.toml's in ``make test``.

``make test`` takes the profile ``test``. ``make test-faults`` takes ``faults``, with a seed of its own; another profile
is named by ``HYPOTHESIS_PROFILE``. Hypothesis' own ``derandomize`` won't do: its seed for a test with parameters is
that of the parameters that the process ran first.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

EXAMPLES = {"test": 20, "faults": 1_000, "night": 50_000}
"""Examples of a property test that doesn't say how many it takes, by profile."""
COUNTED_FOR = 50
"""The examples of a profile in which a test that asks for a number of its own would take just that many."""

_DEPENDS_ON_TIME = (HealthCheck.too_slow,)
_FIXTURES_ARE_SHARED = (HealthCheck.function_scoped_fixture,)


def load() -> None:
    """Loads the profile that ``HYPOTHESIS_PROFILE`` names.

    :raises hypothesis.errors.InvalidArgument: there is no such profile
    """
    # Else it draws constants of the project's modules, too: which are loaded depends on the tests that ran before.
    providers._get_local_constants = Constants
    for name, count in EXAMPLES.items():
        settings.register_profile(
            name,
            max_examples=count,
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=[*_DEPENDS_ON_TIME, *_FIXTURES_ARE_SHARED],
        )
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "test"))


def examples(count: int) -> int:
    """How many a test takes that asks for ``count``: fewer in ``make test`` and more in a search, by the profile."""
    return max(1, count * settings().max_examples // COUNTED_FOR)
