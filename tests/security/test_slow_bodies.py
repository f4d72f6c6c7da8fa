"""Who loses their account or their role while the body of their request is still on its way does nothing by it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import pytest

from console.access import accounts
from console.access.roles import Role
from operations.audit_log import AuditOutcome
from tests.security.test_two_people import TYPED, TwoPeopleLedger, entry, form_of
from tests.unit.console.listening import ADA, EVE, FAY, ORIGIN, PASSWORD, Browser, csrf_of, slowly

FORM = {"origin": ORIGIN, "sec-fetch-site": "same-origin", "content-type": "application/x-www-form-urlencoded"}
MAL = "mal"


@pytest.fixture
def office(tmp_path: Path) -> TwoPeopleLedger:
    return TwoPeopleLedger(tmp_path / "data")


def removed(office: TwoPeopleLedger, name: str) -> Callable[[], None]:
    return lambda: accounts.remove_user(office.listener.users, name, lambda *_: None)


def roles_taken(office: TwoPeopleLedger, name: str) -> Callable[[], None]:
    return lambda: accounts.set_roles(office.listener.users, name, frozenset({Role.VIEWER}), lambda *_: None)


def proposed_entry(browser: Browser, meanwhile: Callable[[], object]) -> int:
    """The status of a proposal's form."""
    page = browser.get("/ledger/entries")
    fields = {**TYPED, "csrf_token": csrf_of(page), "form": form_of(page)}
    body = slowly(urlencode(fields).encode(), meanwhile)
    return browser.request("POST", "/ledger/entries", content=body, headers=FORM).status_code


def test_a_proposer_who_is_removed_meanwhile_proposes_nothing(office: TwoPeopleLedger) -> None:
    users = office.listener.users
    accounts.add_user(users, MAL, frozenset({Role.FINANCE}), PASSWORD, lambda *_: None, by=ADA)
    mal = Browser(office.listener)
    assert mal.sign_in(MAL).status_code == 303
    assert proposed_entry(mal, lambda: None) == 303
    assert proposed_entry(mal, removed(office, MAL)) == 303
    office.letters.batch()
    assert office.states() == [("propose_entry", "waits")]


@pytest.mark.parametrize("change", [removed, roles_taken])
def test_an_administrator_who_is_none_any_more_changes_no_user(
    office: TwoPeopleLedger, change: Callable[[TwoPeopleLedger, str], Callable[[], None]]
) -> None:
    ada, users = Browser(office.listener), office.listener.users
    assert ada.sign_in(ADA).status_code == 303
    token = csrf_of(ada.get("/users/eve"))
    body = slowly(f"csrf_token={token}&role=replayer&role=finance".encode(), change(office, ADA))
    answer = ada.request("POST", "/users/eve/roles", content=body, headers=FORM)
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert users.read_accounts()[EVE].roles == {Role.VIEWER}


@pytest.mark.parametrize(("change", "status"), [(removed, 401), (roles_taken, 403)])
def test_a_token_whose_user_or_role_is_gone_orders_nothing(
    office: TwoPeopleLedger, change: Callable[[TwoPeopleLedger, str], Callable[[], None]], status: int
) -> None:
    headers = {"idempotency-key": f'"{uuid.uuid4()}"', "content-type": "application/json"}
    body = slowly(json.dumps(entry()).encode(), change(office, FAY))
    answer = office.listener.request("POST", "/api/ledger/entries", FAY, content=body, headers=headers)
    office.letters.batch()
    assert answer.status_code == status
    proposals = office.listener.request("GET", "/api/ledger/proposals", ADA).json()["proposals"]
    assert proposals == []
    refused = [act for act in office.listener.audit_log.read(100) if act.outcome is AuditOutcome.REFUSED]
    assert [(act.actor, act.what, act.channel) for act in refused] == [
        (FAY, "POST /api/ledger/entries", "api") for _ in range(status == 403)
    ]
