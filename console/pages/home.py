"""The first page after signing in."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from console.access import User, require
from console.web import render


def routes() -> APIRouter:
    router = APIRouter()

    @router.get("/")
    async def home(request: Request, _user: Annotated[User, Depends(require(None))]) -> Response:
        return render(request, "home.html")

    return router
