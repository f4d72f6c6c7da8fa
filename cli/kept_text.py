"""The type of ``--reason``: what is kept with an act for good."""

from __future__ import annotations

from typing import Any

import click

from core.visible import kept_text


class KeptText(click.ParamType[str]):
    """Printable words, without the blanks around them."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return kept_text(str(value))
        except ValueError as wrong:
            self.fail(str(wrong), param, ctx)


KEPT_TEXT = KeptText()
