"""A stream's own rules about errors: what is wrong with them, its hook, and that they are over the global ones."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from core.decision import ErrorKind
from core.errors import SettingError
from core.work import WorkItem
from processor.errors.classify import Classifier
from processor.errors.error_rules import Rules
from processor.streams import StreamConfig, StreamInvalid, load_streams
from processor.wiring import make_classifier
from tests.unit.processor.errors.failing import NRE, SBE, SLE, SNBE, Closed, DriverError
from tests.unit.processor.hook_of_kinds import Odd

HOOKED = Rules.model_validate(
    {"hook": "tests.unit.processor.hook_of_kinds:decide", "kinds": {"LookupError": "SLE", "Odd": "SNBE"}}
)


def item(provider: str) -> WorkItem:
    return WorkItem(1, "k", "e", provider, "acct", "t", b"{}", None, 0)


@pytest.mark.row("E1")
@pytest.mark.parametrize(
    ("error", "provider", "kind"),
    [
        (KeyError("all of it"), "any", SBE),
        (KeyError("a"), "slow", SNBE),
        (KeyError("a"), "any", SLE),
        (Closed("all of it"), "any", SBE),
    ],
)
def test_a_hook_is_asked_first_and_may_leave_it_to_the_rules(error: Exception, provider: str, kind: ErrorKind) -> None:
    assert make_classifier(HOOKED).make_failure(error, item=item(provider)).kind is kind


@pytest.mark.parametrize(
    ("error", "reported"), [(Odd("x"), "the hook's own bug"), (ValueError("no such kind"), "'XYZ' is not a valid")]
)
def test_a_hook_that_fails_leaves_it_to_the_rules_and_the_row_tells(error: Exception, reported: str) -> None:
    failure = make_classifier(HOOKED).make_failure(error, "a line of the handler's", item("any"))
    assert failure.kind is (SNBE if isinstance(error, Odd) else NRE)
    assert failure.log_lines is not None and failure.log_lines.startswith("a line of the handler's\nthe hook")
    assert reported in failure.log_lines


@pytest.mark.parametrize(
    ("hook", "reported"),
    [
        ("tests.unit.processor.no_such:decide", "no module"),
        ("tests.unit.processor.hook_of_kinds:no_such", "has no no_such"),
        ("tests.unit.processor.hook_of_kinds:NOT_A_FUNCTION", "isn't a function"),
    ],
)
def test_a_hook_that_is_not_there_is_an_error_of_the_start(hook: str, reported: str) -> None:
    with pytest.raises(SettingError, match=reported) as refused:
        make_classifier(Rules(hook=hook), "[ledger] errors")
    assert refused.value.setting == "[ledger] errors.hook"


def test_a_classifier_travels_to_an_executor_with_its_hook() -> None:
    travelled = pickle.loads(pickle.dumps(make_classifier(HOOKED)))
    assert travelled.find_kind(KeyError("all of it")) is SBE
    assert travelled.find_kind(KeyError("a")) is SLE


@pytest.mark.parametrize(
    ("errors", "key", "reported"),
    [
        ({"rules": {"gone": {"kind": "SBE"}}}, "errors.rules.gone", "set error, message or code"),
        ({"rules": {"ok": {"kind": "SBE", "code": "1"}, "gone": {"kind": "BSE", "code": "1"}}},
         "errors.rules.gone.kind", "'BSE' isn't a kind: expected one of NRE, SLE, SNBE, SBE"),
        ({"rules": {"gone": {"kind": "SBE", "message": "(a"}}}, "errors.rules.gone.message", "missing )"),
        ({"rules": {"gone": {"kind": "SBE", "message": ""}}}, "errors.rules.gone.message", "1 to 500 characters"),
        ({"rules": {"gone": {"kind": "SBE", "error": "no class"}}}, "errors.rules.gone.error", "'no class' isn't"),
        ({"rules": {"gone": {"kind": "SBE", "error": "Exception"}}}, "errors.rules.gone.error", "set `default`"),
        ({"rules": {"gone": {"kind": "SBE", "code": [""]}}}, "errors.rules.gone.code.0", "at least 1"),
        ({"rules": {"gone": {"kind": "SBE", "codes": "1"}}}, "errors.rules.gone.codes", "no such key"),
        ({"kinds": {"KeyError": "SBE", "LookupError": "sbe"}}, "errors.kinds.LookupError", "'sbe' isn't a kind"),
        ({"kinds": {"Key Error": "SBE"}}, "errors.kinds.Key Error", "isn't a class's name"),
        ({"hook": "decide"}, "errors.hook", "match pattern"),
        ({"default": "never"}, "errors.default", "isn't a kind"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_reported_with_the_rule_it_stands_in(errors: dict[str, Any], key: str, reported: str) -> None:
    with pytest.raises(StreamInvalid) as refused:
        load_streams(settings={"ledger": {"errors": errors}})
    assert refused.value.key.startswith(key)
    assert reported in str(refused.value)


GLOBAL_AND_OWN = """
[defaults.errors]
default = "SNBE"
kinds = { KeyError = "SLE", ValueError = "NRE" }
rules.gone = { kind = "SNBE", message = "gone" }
rules.code = { kind = "SLE", code = "40001" }

[ledger.errors]
kinds = { ValueError = "SBE" }
rules.gone = { kind = "SBE", message = "all gone" }
rules.mine = { kind = "NRE", code = "40*" }

[other]
handler = "shop.handler:build"
source = "kafka:orders"
"""


@pytest.mark.row("E2")
def test_a_streams_own_rules_are_over_the_global_ones(tmp_path: Path) -> None:
    file = tmp_path / "streams.toml"
    file.write_text(GLOBAL_AND_OWN, "utf-8")
    streams = load_streams(str(file))
    errors = [
        ZeroDivisionError(),
        KeyError(),
        ValueError(),
        OSError("all gone"),
        OSError("gone"),
        DriverError("", "40001"),
    ]

    def kinds(stream: StreamConfig) -> list[ErrorKind]:
        return [Classifier(stream.errors).find_kind(error) for error in errors]

    assert kinds(streams["other"]) == [SNBE, SLE, NRE, SNBE, SNBE, SLE]
    assert kinds(streams["ledger"]) == [SNBE, SLE, SBE, SBE, SNBE, NRE]
