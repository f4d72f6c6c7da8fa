"""Functions that are configured by name, and what they ask for by the types of their parameters."""

from __future__ import annotations

import importlib
import inspect
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from core.errors import SettingError


def bound(setting: str, name: str, sections: Mapping[type, object], own: Mapping[str, Any]) -> Callable[[], Any]:
    """The function ``name`` ("module:function") with its arguments: called without any, and picklable by reference.

    A parameter whose type is one of ``sections`` gets what stands there: a section of the settings, or
    `core.work.Receivers`. One of another pydantic model gets that model, made from ``own``; one without such a type is
    an error.

    :param setting: how the function is named in messages, with the file and the key that it comes from
    :raises SettingError: there is no such function, or it asks for what nobody has
    """
    function = named(setting, name)
    wanted = _parameters(setting, name, function)
    given = {parameter: _given(setting, parameter, kind, sections, own) for parameter, kind in wanted.items()}
    if own and not any(kind not in sections for kind in wanted.values()):
        raise SettingError(setting, f"{name} takes no settings of its own: leave the table `settings` out")
    return partial(function, **given)


def named(setting: str, name: str) -> Any:
    """What ``module:name`` names.

    :raises SettingError: there is no such module, or it has no such name
    """
    module, _, attribute = name.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as missing:
        told = f"there is no module {missing.name}: install it, or put its folder on PYTHONPATH"
        raise SettingError(setting, told) from missing
    except AttributeError as missing:
        raise SettingError(setting, f"the module {module} has no {attribute}") from missing


def _parameters(setting: str, name: str, function: Any) -> dict[str, Any]:
    """Parameters without a default, with their types."""
    try:
        signature, kinds = inspect.signature(function), typing.get_type_hints(function)
    except (TypeError, NameError) as unreadable:
        raise SettingError(setting, f"the parameters of {name} can't be read: {unreadable}") from unreadable
    needed = [one.name for one in signature.parameters.values() if one.default is inspect.Parameter.empty]
    return {parameter: kinds.get(parameter) for parameter in needed}


def _given(setting: str, parameter: str, kind: Any, sections: Mapping[type, object], own: Mapping[str, Any]) -> object:
    if kind in sections:
        return sections[kind]
    if not (isinstance(kind, type) and issubclass(kind, BaseModel)):
        told = (
            f"its parameter {parameter} has the type {kind}: a section of the settings or a model of its own is wanted"
        )
        raise SettingError(setting, told)
    try:
        return kind(**own)
    except ValidationError as wrong:
        first = wrong.errors(include_url=False)[0]
        path = ".".join(["settings", *(str(part) for part in first["loc"])])
        raise SettingError(f"{setting}, {path}", first["msg"]) from None
