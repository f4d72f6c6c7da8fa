"""The shell of the listener's pages: templates, static files, signing in and out, what is shown when a page isn't."""

from __future__ import annotations

from console.web.navigation import NAVIGATION, Link
from console.web.rendering import csrf_field, render

__all__ = ["NAVIGATION", "Link", "csrf_field", "render"]
