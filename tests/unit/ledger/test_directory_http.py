"""The merchant directory over real HTTP: what each answer means, and what is remembered of it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import ValidationError

from core.clock import ManualClock
from core.decision import ErrorKind
from core.errors import SettingError
from core.files import write_whole
from core.work import WorkItem, limited_by
from ledger.directory import (
    ANSWER_BYTES_MAX,
    CACHE_S,
    DirectoryRefused,
    DirectoryUnavailable,
    FileDirectory,
    HttpDirectory,
    Merchant,
    MerchantClosed,
    MerchantUnknown,
    open_client,
)
from ledger.handler import open_directory
from ledger.settings import LedgerSettings
from processor.calls.budget import Budget, Budgets, CallReport
from processor.calls.limiter import Limiter
from tests.merchant_service import Answer, MerchantService, found

NOW = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


@pytest.fixture
def service() -> Iterator[MerchantService]:
    running = MerchantService()
    yield running
    running.stop()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


def directory(
    service: MerchantService, clock: ManualClock, token_file: str = "", timeout_s: float = 30.0
) -> HttpDirectory:
    return HttpDirectory(service.url, open_client(timeout_s), clock, token_file)


def says(status: int, body: bytes = b"{}", **headers: str) -> Answer:
    return status, headers, body


def reported(subject: HttpDirectory, account: str = "acct_1") -> tuple[CallReport, Exception | None]:
    """What a breaker learns of a lookup, and what the lookup raised."""
    limiter = Limiter(Budgets({"merchants": Budget(9, 9, 9, 9)}), 1.0)
    item = WorkItem(1, "key", "entity", "stripe", account, "t", b"{}", None, 0)
    raised: Exception | None = None
    with limited_by(limiter.begin_try(item, again=False)):
        try:
            subject.lookup("stripe", account)
        except Exception as error:
            raised = error
    return limiter.collect_reports()["merchants"], raised


def test_a_merchant_is_asked_for_by_provider_account_and_tenant(service: MerchantService, clock: ManualClock) -> None:
    subject = directory(service, clock)
    assert subject.lookup("stripe", "acct/ä&1", "shop-a") == Merchant("merchant-acct/ä&1")
    assert subject.lookup("adyen", "") == Merchant("merchant-")
    assert service.asked == [
        {"provider": "stripe", "account": "acct/ä&1", "tenant": "shop-a"},
        {"provider": "adyen", "account": ""},
    ]


def test_what_it_does_not_know_is_stuck_alone_and_asked_again(service: MerchantService, clock: ManualClock) -> None:
    service.answer = lambda query: says(404)
    subject = directory(service, clock)
    for _ in range(2):
        report, error = reported(subject)
        assert isinstance(error, MerchantUnknown)
        assert (report.calls, report.failed) == (1, 0)
    assert len(service.asked) == 2


def test_a_closed_merchant_needs_a_person_and_is_not_remembered(service: MerchantService, clock: ManualClock) -> None:
    service.answer = lambda query: says(200, b'{"account": "merchant-1", "closed": true}')
    subject = directory(service, clock)
    with pytest.raises(MerchantClosed, match="merchant-1"):
        subject.lookup("stripe", "acct_1")
    service.answer = lambda query: says(200, b'{"account": "merchant-1", "closed": false}')
    assert subject.lookup("stripe", "acct_1") == Merchant("merchant-1")


@pytest.mark.parametrize(
    "answer",
    [
        says(500),
        says(503),
        says(429),
        says(302, location="http://127.0.0.1:9/"),
        says(204, b""),
        says(200, b"<html>"),
        says(200, b"[]"),
        says(200, b'{"account": ""}'),
        says(200, b'{"account": "m", "closed": "no"}'),
        says(200, b'{"account": "' + b"m" * ANSWER_BYTES_MAX + b'"}'),
    ],
)
def test_any_other_answer_is_the_directorys_failure(
    service: MerchantService, clock: ManualClock, answer: Answer
) -> None:
    service.answer = lambda query: answer
    report, error = reported(directory(service, clock))
    assert isinstance(error, DirectoryUnavailable)
    assert error.kind is ErrorKind.SNBE
    assert (report.failed, report.problem) == (1, "DirectoryUnavailable")


def test_silence_is_its_failure_after_the_timeout(service: MerchantService, clock: ManualClock) -> None:
    service.silent = True
    report, error = reported(directory(service, clock, timeout_s=0.3))
    assert isinstance(error, DirectoryUnavailable)
    assert report.failed == 1
    assert report.seconds >= 0.25


def test_nobody_there_is_its_failure(service: MerchantService, clock: ManualClock) -> None:
    subject = directory(service, clock)
    service.stop()
    report, error = reported(subject)
    assert isinstance(error, DirectoryUnavailable)
    assert report.failed == 1


@pytest.mark.parametrize(("value", "seconds"), [("7", 7.0), ("Sat, 31 Jan 2026 12:00:30 GMT", 30.0)])
def test_it_says_when_it_wants_to_be_asked_again(
    service: MerchantService, clock: ManualClock, value: str, seconds: float
) -> None:
    service.answer = lambda query: (503, {"retry-after": value}, b"")
    report, error = reported(directory(service, clock))
    assert isinstance(error, DirectoryUnavailable)
    assert (error.retry_after_s, report.quiet_s) == (seconds, seconds)


@pytest.mark.parametrize("status", [401, 403])
def test_refusing_us_stops_the_stream_and_is_no_illness(
    service: MerchantService, clock: ManualClock, status: int
) -> None:
    service.answer = lambda query: says(status)
    report, error = reported(directory(service, clock))
    assert isinstance(error, DirectoryRefused)
    assert error.kind is ErrorKind.SBE
    assert report.failed == 0


def test_a_found_merchant_is_remembered_for_a_while(service: MerchantService, clock: ManualClock) -> None:
    subject = directory(service, clock)
    for _ in range(3):
        subject.lookup("stripe", "acct_1")
    clock.advance(CACHE_S - 1)
    subject.lookup("stripe", "acct_1")
    assert len(service.asked) == 1
    clock.advance(1)
    subject.lookup("stripe", "acct_1")
    assert len(service.asked) == 2


def test_what_is_remembered_is_bounded_and_the_least_used_goes(
    service: MerchantService, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.directory.CACHE_MAX", 2)
    subject = directory(service, clock)
    for account in ("a", "b", "a", "c", "a", "b"):
        subject.lookup("stripe", account)
    assert [query["account"] for query in service.asked] == ["a", "b", "c", "b"]


def test_tenants_do_not_share_what_is_remembered(service: MerchantService, clock: ManualClock) -> None:
    subject = directory(service, clock)
    for tenant in (None, "shop-a", "shop-b"):
        subject.lookup("stripe", "acct_1", tenant)
    assert len(service.asked) == 3


def test_the_token_is_sent_and_never_shown(service: MerchantService, clock: ManualClock, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    service.answer = lambda query: says(500)
    subject = directory(service, clock, token_file=str(file))
    _, error = reported(subject)
    assert service.headers[0]["authorization"] == "Bearer s3cret"
    assert "s3cret" not in str(error)


def test_a_token_that_was_rolled_is_sent_with_the_next_request(
    service: MerchantService, clock: ManualClock, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")

    def only_the_new_one(query: dict[str, str]) -> Answer:
        return found(query) if service.headers[-1]["authorization"] == "Bearer new" else says(401)

    service.answer = only_the_new_one
    subject = directory(service, clock, token_file=str(file))
    with pytest.raises(DirectoryRefused, match="401"):
        subject.lookup("stripe", "acct_1")
    write_whole(file, "new\n")
    assert subject.lookup("stripe", "acct_1") == Merchant("merchant-acct_1")


@pytest.mark.parametrize("content", [None, b"", b"\xff"])
def test_a_token_that_is_none_while_it_is_rolled_stops_the_stream_until_it_is_there(
    service: MerchantService, clock: ManualClock, tmp_path: Path, content: bytes | None
) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    subject = directory(service, clock, token_file=str(file))
    file.unlink()
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(DirectoryRefused, match=str(file)) as refused:
        subject.lookup("stripe", "acct_1")
    assert (refused.value.kind, service.asked) == (ErrorKind.SBE, [])
    write_whole(file, "new\n")
    assert subject.lookup("stripe", "acct_1") == Merchant("merchant-acct_1")


@pytest.mark.parametrize("content", [None, b"", b" \n", b"a\nb", b"\xff"])
def test_a_token_that_is_none_refuses_to_start(clock: ManualClock, tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(SettingError, match="merchants_token_file"):
        open_directory(LedgerSettings(merchants_url="http://merchants/", merchants_token_file=str(file)), clock)


def test_a_setting_chooses_the_service_or_the_file(clock: ManualClock) -> None:
    both = LedgerSettings(merchants_url="http://merchants.internal/", merchants_file="merchants.toml")
    assert isinstance(open_directory(both, clock), HttpDirectory)
    assert isinstance(open_directory(LedgerSettings(merchants_file="merchants.toml"), clock), FileDirectory)


@pytest.mark.parametrize(
    "url", ["merchants", "ftp://x/", "http://x/?a=b", "http://x/#top", "http:// x/", "http://a:b@x/"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        LedgerSettings(merchants_url=url)


@pytest.mark.parametrize(
    "error", [DirectoryUnavailable("http://x/", "timed out", 3.0), DirectoryRefused("http://x/", "it answers 401")]
)
def test_errors_travel_between_processes(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), vars(again)) == (str(error), vars(error))


def test_it_logs_whom_it_asks_and_what_it_remembers(
    service: MerchantService, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "ledger.directory")
    subject = directory(service, clock)
    for _ in range(2):
        subject.lookup("stripe", "acct_1")
    assert caplog.messages == [
        f"asks the merchant directory {service.url}",
        "the directory answered that a moment ago",
    ]
