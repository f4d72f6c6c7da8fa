"""Templates to pages. Everything that is put into one is escaped, and nothing in it is unseen; a name that isn't there
is an error, not a blank.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from console.access.requirement import user_of
from console.forms import FIELD, csrf_token
from console.told import FILTERS, plain
from console.web.navigation import links_for
from console.web.static import static_url

TEMPLATES = Path(__file__).parents[1] / "templates"


def csrf_field(request: Request) -> Markup:
    """The hidden field that every form of a page has; empty where the reader's browser has no cookie of ours."""
    secret = getattr(request.state, "csrf_secret", None)
    return Markup('<input type="hidden" name="{}" value="{}">').format(FIELD, csrf_token(secret) if secret else "")


def render(request: Request, template: str, status: int = 200, /, **context: Any) -> HTMLResponse:
    """A page. Every template has ``request``, ``user`` (or None), ``links`` (the navigation), `csrf_field` and
    ``static(name)``; it extends ``base.html``.
    """
    user = user_of(request)
    shown = {"request": request, "user": user, "links": links_for(user), **context}
    return HTMLResponse(_TEMPLATES.get_template(template).render(shown), status)


def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        finalize=plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= FILTERS
    made.globals |= {"csrf_field": csrf_field, "static": static_url}
    return made


_TEMPLATES = _environment()
