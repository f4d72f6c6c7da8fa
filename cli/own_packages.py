"""Whether `core`, `ingest` and the others are payhook's own: the first of a name on Python's path counts."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[1]
NOT_IMPORTED = frozenset({"tests", "docs"})


def hidden_packages(checkout: Path = CHECKOUT) -> Iterator[tuple[str, str]]:
    """Finds packages of payhook's that others hide, each with where the other one is.

    An editable installation comes last on the path, so anything else of that name hides it.
    """
    for package in sorted(checkout.glob("*/__init__.py")):
        name = package.parent.name
        spec = None if name in NOT_IMPORTED else find_spec(name)
        if spec is not None and (spec.origin is None or Path(spec.origin).resolve() != package):
            yield name, str(spec.origin or next(iter(spec.submodule_search_locations or ["?"])))


def explain_refusal() -> str | None:
    """Says why payhook can't run with what is installed; None where it can."""
    hidden = dict(hidden_packages())
    if not hidden:
        return None
    packages = ", ".join(f"{name} is {place}" for name, place in hidden.items())
    return (
        f"payhook: packages of others hide payhook's own: {packages}. Take them out of this environment and out of "
        f"PYTHONPATH, or give payhook an environment of its own (`make setup` makes {CHECKOUT / '.venv'})"
    )
