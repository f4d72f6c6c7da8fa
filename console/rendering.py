"""Templates to pages: links, navigation, static files, and how every text in a page is escaped."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from console.access.roles import Role
from console.access.routes import Everybody, user_of
from console.formats import FILTERS, KIND_WORDS, clean_value
from console.forms import FIELD, csrf_token
from core.routing import row_name


def make_address(path: str, query: Mapping[str, object] | None = None) -> str:
    """Makes an address of ``path`` with what of ``query`` has a value; a list is a field given several times."""
    fields = {name: value for name, value in (query or {}).items() if value not in (None, "", [], ())}
    return f"{path}?{urlencode(fields, doseq=True, errors='replace')}" if fields else path


def quote_segment(text: str) -> str:
    """Quotes a text as a segment of a path: ``/`` and ``%`` too are quoted, and two dots are no way up."""
    quoted = quote(text, safe=":", errors="replace")
    return quoted.replace(".", "%2E") if set(text) == {"."} else quoted


LOCAL_PATH = re.compile(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*")
"""A path of ours: printable, without backslashes, and not the beginning of another host's address."""

PATH_CHARS_MAX = 2_000
HOME = "/"


def local_path(wanted: str) -> str:
    """Returns the path, if it is one of ours; else the first page's."""
    return wanted if len(wanted) <= PATH_CHARS_MAX and LOCAL_PATH.fullmatch(wanted) else HOME


def path_of(request: Request) -> str:
    query = request.scope["query_string"].decode("latin-1")
    return local_path(quote(request.scope["path"]) + (f"?{query}" if query else ""))


@dataclass(frozen=True, slots=True)
class Link:
    label: str
    path: str
    role: Role


NAVIGATION: tuple[Link, ...] = (
    Link("Overview", "/", Role.VIEWER),
    Link("Received", "/received", Role.VIEWER),
    Link("Dead letters", "/dlq", Role.VIEWER),
    Link("Alerts", "/alerts", Role.VIEWER),
    Link("Selections", "/dlq/selections", Role.VIEWER),
    Link("Subscribers", "/subscribers", Role.VIEWER),
    Link("Audit log", "/dlq/audit", Role.VIEWER),
    Link("Ledger", "/ledger", Role.FINANCE),
    Link("Users", "/users", Role.ADMIN),
)
"""The links of the navigation, in their order. Every signed-in user has the overview before them."""


FOLDER = Path(__file__).parent / "static"
PATH = "/static"
FOR_EVER = "public, max-age=31536000, immutable"
TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml", ".png": "image/png"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    data: bytes
    media_type: str
    version: str


@functools.cache
def static_files() -> dict[str, StaticFile]:
    """Lists every file that may be asked for, by its name; nothing else is ever opened."""
    files = {}
    for path in sorted(FOLDER.iterdir()):
        if path.suffix in TYPES:
            data = path.read_bytes()
            files[path.name] = StaticFile(data, TYPES[path.suffix], hashlib.sha256(data).hexdigest()[:16])
    return files


def static_url(name: str) -> str:
    return f"{PATH}/{name}?v={static_files()[name].version}"


def static_routes() -> APIRouter:
    router = APIRouter()

    @router.get(PATH + "/{name}", dependencies=[Depends(Everybody("the sign-in page needs them; they say nothing"))])
    async def static(name: str) -> Response:
        file = static_files().get(name)
        if file is None:
            raise HTTPException(404)
        return Response(file.data, media_type=file.media_type, headers={"cache-control": FOR_EVER})

    return router


TEMPLATES = Path(__file__).parent / "templates"


def csrf_field(request: Request) -> Markup:
    """Makes the hidden field that every form of a page has; empty where the reader's browser has no cookie of ours."""
    secret = getattr(request.state, "csrf_secret", None)
    return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, csrf_token(secret) if secret else "")


def render_page(request: Request, template: str, status: int = 200, /, **context: Any) -> HTMLResponse:
    """Renders a page. Every template has ``request``, ``user`` (or None), ``links`` (the navigation), ``badges`` (by a
    link's path), `csrf_field` and ``static(name)``; it extends ``base.html``.
    """
    user = user_of(request)
    links = [link for link in NAVIGATION if user is not None and user.may(link.role)]
    badges = getattr(request.state, "badges", None)
    waits = badges(user) if badges is not None and user is not None else {}
    shown = {"request": request, "user": user, "links": links, "badges": waits, **context}
    return HTMLResponse(_TEMPLATES.get_template(template).render(shown), status)


def _make_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=clean_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {**FILTERS, "segment": quote_segment, "row_name": lambda seq, stream: row_name(stream, seq)}
    environment.globals |= {"csrf_field": csrf_field, "static": static_url, "kind_words": KIND_WORDS}
    return environment


_TEMPLATES = _make_environment()
