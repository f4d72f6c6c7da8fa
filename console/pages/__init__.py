"""The pages of the listener: one file each, put together here."""

from __future__ import annotations

from fastapi import APIRouter

from console.pages import home


def routers() -> list[APIRouter]:
    """Every page's routes. Each says whom it is for: ``dependencies=[Depends(require(Role.…))]``."""
    return [home.routes()]
