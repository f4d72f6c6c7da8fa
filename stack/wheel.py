"""Refuses to make a wheel, for setuptools: see docs/decisions/0047. Imports nothing else of payhook."""

from __future__ import annotations

from setuptools.command.bdist_wheel import bdist_wheel  # type: ignore[import-untyped]

REFUSAL = (
    "payhook isn't installed as a wheel: its packages have common names (core, ledger, load, ...), which would be "
    "mixed with those of others in one site-packages, and it needs its folder for jars and Redis. Check it out and run "
    "`make setup`, or use the container image: docs/deployment.md"
)


class NoWheel(bdist_wheel):  # type: ignore[misc]
    """An editable installation, which leaves every file in payhook's own folder, is all that there is."""

    def run(self) -> None:
        raise SystemExit(REFUSAL)
