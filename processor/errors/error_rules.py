"""Reads what a work stream's configuration says of errors: `Rules`, a table of streams.toml.

::

    [ledger.errors]
    default = "NRE"                                # what isn't known
    hook = "shop.kinds:decide"                     # asked first; see processor.classify
    kinds = { "psycopg.OperationalError" = "SNBE", LookupError = "SLE" }

    [ledger.errors.rules.database-gone]            # all that it names must fit
    kind = "SBE"
    error = "psycopg.OperationalError"
    message = "connection attempt failed|statement timeout"
    code = ["08*", "57P01"]

Of several rules that fit, the last one counts, as with layers of configuration: a stream's rules come after those of
``[defaults.errors]``, and one of the same name takes its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from core.decision import ErrorKind
from core.settings import Section

NAME_CHARS_MAX = 200
PATTERN_CHARS_MAX = 500
RULES_MAX = 200
EVERY_ERROR = frozenset({"BaseException", "Exception", "object"})


def _check_class_name(name: str) -> str:
    if len(name) > NAME_CHARS_MAX or not all(part.isidentifier() for part in name.split(".")):
        raise ValueError(
            f"{name[:NAME_CHARS_MAX]!r} isn't a class's name: expected one such as TimeoutError or httpx2.ReadTimeout"
        )
    if name.removeprefix("builtins.") in EVERY_ERROR:
        raise ValueError(f"{name} is the base of every error: set `default` instead")
    return name


def _check_pattern(pattern: str) -> str:
    if not 0 < len(pattern) <= PATTERN_CHARS_MAX:
        raise ValueError(f"expected a pattern of 1 to {PATTERN_CHARS_MAX} characters")
    # Here, because every process reads the settings and few of them have a pattern: Arrow takes long to load.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        pc.match_substring_regex(pa.scalar(""), pattern)
    except pa.ArrowInvalid as wrong:
        problem = str(wrong).removeprefix("Invalid regular expression: ")
        raise ValueError(f"{pattern!r} isn't a pattern of RE2: {problem}") from None
    return pattern


def _to_list(codes: Any) -> Any:
    return [str(code) if isinstance(code, int) else code for code in (codes if isinstance(codes, list) else [codes])]


def _check_kind_name(name: Any) -> Any:
    if isinstance(name, str) and name not in ErrorKind.__members__:
        raise ValueError(f"{name[:NAME_CHARS_MAX]!r} isn't a kind: expected one of {', '.join(ErrorKind)}")
    return name


ClassName = Annotated[str, AfterValidator(_check_class_name)]
Code = Annotated[str, Field(min_length=1, max_length=NAME_CHARS_MAX)]
Kind = Annotated[ErrorKind, BeforeValidator(_check_kind_name)]


class ErrorRule(Section):
    """A rule: what it names must all fit the same error."""

    kind: Kind = Field(description="NRE, SLE, SNBE or SBE")
    error: ClassName | None = Field(None, description="class of the error or a base of it, with its module or without")
    message: Annotated[str, AfterValidator(_check_pattern)] | None = Field(
        None, description="pattern (RE2) that is found in its text; (?i) in front: large or small letters alike"
    )
    code: Annotated[tuple[Code, ...], BeforeValidator(_to_list)] = Field(
        (), description="its code, status or SQLSTATE is one of these; * stands for any characters"
    )

    @model_validator(mode="after")
    def _names_something(self) -> ErrorRule:
        if self.error is None and self.message is None and not self.code:
            raise ValueError("the rule names nothing: set error, message or code; for all other errors set `default`")
        return self


class Rules(Section):
    kinds: dict[ClassName, Kind] = Field(
        default_factory=dict, max_length=RULES_MAX, description="kind by the error's class; the nearest base counts"
    )
    rules: dict[str, ErrorRule] = Field(
        default_factory=dict,
        max_length=RULES_MAX,
        description="named rules by class, message and code; before `kinds`, and the last one that fits counts",
    )
    hook: str = Field(
        "",
        pattern=r"^([A-Za-z_][\w.]*:[A-Za-z_]\w*)?$",
        description="module:function, asked first with error and item; it answers a kind, or None: the rules decide",
    )
    default: Kind = Field(ErrorKind.NRE, description="kind of an error that no rule knows")

    def find_kind(self, error: BaseException, message: str, codes: list[str]) -> ErrorKind | None:
        for rule in reversed(self.rules.values()):
            if _is_match(rule, error, message, codes):
                return rule.kind
        return find_kind_by_class(error, self.kinds)


def find_kind_by_class(error: BaseException, kinds: Mapping[str, ErrorKind]) -> ErrorKind | None:
    """Finds the kind of the error's class, or of its nearest base that is listed; a name with a module comes first."""
    for base in type(error).__mro__:
        names = [name for name in kinds if is_named(base, name)]
        if names:
            return kinds[max(names, key=lambda name: name.count("."))]
    return None


def is_named(error_class: type, name: str) -> bool:
    """Matches ``httpx2.ReadTimeout`` with a class of that name in httpx2 or a module below it, ``ReadTimeout`` with
    any.
    """
    module, _, plain = name.rpartition(".")
    return error_class.__name__ == plain and (not module or f"{error_class.__module__}.".startswith(f"{module}."))


def _is_match(rule: ErrorRule, error: BaseException, message: str, codes: list[str]) -> bool:
    if rule.error is not None and not any(is_named(base, rule.error) for base in type(error).__mro__):
        return False
    if rule.code and not any(fnmatchcase(code, pattern) for code in codes for pattern in rule.code):
        return False
    return rule.message is None or _is_found(rule.message, message)


def _is_found(pattern: str, text: str) -> bool:
    import pyarrow as pa
    import pyarrow.compute as pc

    # RE2 takes time in proportion to the text: one that came with an event can't make it hang, as it could make `re`.
    return bool(pc.match_substring_regex(pa.scalar(text), pattern).as_py())
