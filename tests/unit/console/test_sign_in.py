"""Signing in and out, as a browser does it; and pages that others would like to use."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi import FastAPI

from console.access import accounts
from console.access.sign_in import USER_TRIES
from core.clock import ManualClock
from tests.unit.console.listening import ADA, IDA, IDLE, ORIGIN, PASSWORD, WHOLE, Browser, Listener, csrf_of

NOW = datetime(2026, 1, 31, 12, tzinfo=UTC)
XSS = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"


def new_listener(folder: Path, clock: ManualClock, *, https: bool = False) -> Listener:
    return Listener(FastAPI(openapi_url=None, docs_url=None, redoc_url=None), folder, clock, https=https)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOW)


@pytest.fixture
def listener(tmp_path: Path, clock: ManualClock) -> Listener:
    return new_listener(tmp_path, clock)


@pytest.fixture(scope="module")
def shared_listener(tmp_path_factory: pytest.TempPathFactory) -> Listener:
    """One for the tests that sign in and change nothing else."""
    return new_listener(tmp_path_factory.mktemp("shared"), ManualClock(NOW))


@pytest.fixture
def browser(listener: Listener) -> Browser:
    return Browser(listener)


def test_whoever_is_not_signed_in_is_sent_to_sign_in_and_back(browser: Browser) -> None:
    sent = browser.get("/?page=2")
    assert (sent.status_code, sent.headers["location"]) == (303, "/login?next=%2F%3Fpage%3D2")
    page = browser.get(sent.headers["location"])
    assert page.status_code == 200
    answer = browser.post("/login", {"name": ADA, "password": PASSWORD, "next": "/?page=2"}, csrf_of(page))
    assert (answer.status_code, answer.headers["location"]) == (303, "/?page=2")
    assert "<b>ada</b>" in browser.get("/").text


def test_the_sessions_cookie_is_for_this_listener_alone_and_for_no_script(browser: Browser) -> None:
    reported = browser.sign_in().headers.get_list("set-cookie")
    [cookie] = [one for one in reported if one.startswith("payhook_session=") and "Max-Age=0" not in one]
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert attributes == {"httponly", "path=/", "samesite=strict"}


def test_over_https_cookies_are_secure_and_bound_to_the_host(tmp_path: Path, clock: ManualClock) -> None:
    browser = Browser(new_listener(tmp_path, clock, https=True), "https://127.0.0.1:8081")
    page = browser.get("/login")
    [visitor] = page.headers.get_list("set-cookie")
    assert visitor.startswith("__Host-payhook_visitor=")
    token = csrf_of(page)
    answer = browser.post("/login", {"name": ADA, "password": PASSWORD}, token, origin=ORIGIN)
    reported = answer.headers.get_list("set-cookie")
    [cookie] = [one for one in reported if one.startswith("__Host-payhook_session=")]
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {
        "httponly",
        "path=/",
        "samesite=strict",
        "secure",
    }


def test_signing_out_ends_the_session_for_good(browser: Browser, listener: Listener) -> None:
    browser.sign_in()
    stolen = Browser(listener)
    stolen.cookies.update(browser.cookies)
    assert stolen.get("/").status_code == 200
    answer = browser.post("/logout", {}, csrf_of(browser.get("/")))
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert browser.get("/").status_code == stolen.get("/").status_code == 303
    assert [one.action for one in listener.audit_log.read(5)] == ["sign_out", "sign_in"]


def test_each_sign_in_is_a_new_session(browser: Browser, listener: Listener) -> None:
    """An id that somebody else planted before isn't one afterwards."""
    planted = Browser(listener)
    for one in (browser, planted):
        one.cookies.set("payhook_session", "planted", domain="127.0.0.1", path="/")
    browser.sign_in()
    assert browser.cookies["payhook_session"] != "planted"
    assert planted.get("/").status_code == 303


def test_a_session_ends_unused_and_at_the_latest_after_its_time(browser: Browser, clock: ManualClock) -> None:
    browser.sign_in()
    clock.advance(IDLE.total_seconds())
    assert browser.get("/").status_code == 200
    clock.advance(IDLE.total_seconds() + 1)
    assert browser.get("/").status_code == 303
    browser.sign_in()
    for _ in range(int(WHOLE / (IDLE / 2))):
        clock.advance(IDLE.total_seconds() / 2)
        assert browser.get("/").status_code == 200
    clock.advance(1)
    assert browser.get("/").status_code == 303


def test_a_restart_of_the_listener_leaves_people_signed_in(
    browser: Browser, listener: Listener, tmp_path: Path, clock: ManualClock
) -> None:
    browser.sign_in()
    listener.access.close()
    after = Browser(new_listener(tmp_path, clock))
    after.cookies.update(browser.cookies)
    assert "<b>ada</b>" in after.get("/").text


def test_a_wrong_password_says_so_and_names_neither(browser: Browser) -> None:
    answer = browser.sign_in(password="wrong horse battery")
    assert answer.status_code == 401
    assert "wrong name or password" in answer.text
    assert "wrong horse" not in answer.text
    unknown = browser.sign_in(name="nobody", password="wrong horse battery")
    assert (unknown.status_code, unknown.text) == (401, answer.text)


def test_too_many_wrong_tries_are_reported_to_wait(browser: Browser) -> None:
    for _ in range(USER_TRIES):
        browser.sign_in(password="wrong horse battery")
    answer = browser.sign_in()
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert "wait 1 s" in answer.text


def test_without_users_the_page_says_which_command_makes_one(listener: Listener, tmp_path: Path) -> None:
    (tmp_path / "console" / "users.json").unlink()
    assert "payhook users add NAME --role admin" in Browser(listener).get("/login").text


def test_a_file_of_users_that_cannot_be_read_lets_nobody_in_and_does_not_say_where_it_is(
    browser: Browser, listener: Listener, tmp_path: Path
) -> None:
    browser.sign_in()
    (tmp_path / "console" / "users.json").write_text("{")
    answer = browser.get("/")
    assert (answer.status_code, str(tmp_path) in answer.text) == (503, False)
    reported = listener.request("GET", "/api/dlq/replay", ADA)
    assert (reported.status_code, reported.headers["content-type"]) == (503, "application/problem+json")
    assert Browser(listener).get("/login").status_code == 503


def test_whoever_is_without_a_role_is_reported_so(browser: Browser) -> None:
    browser.sign_in(IDA)
    assert "You have no role yet" in browser.get("/").text


def test_a_change_of_roles_ends_the_session(browser: Browser, listener: Listener) -> None:
    browser.sign_in()
    accounts.set_roles(listener.users, ADA, frozenset(), lambda *_: None)
    assert browser.get("/").status_code == 303


@pytest.mark.parametrize(
    "wanted",
    [
        *("https://evil.example/", "//evil.example", "/\\evil.example", "\\\\evil.example", "/%0d%0aset-cookie:x"),
        *("javascript:alert(1)", "evil", "", "/a b", "/\n/evil", "/" + "a" * 3_000),
    ],
)
def test_after_signing_in_nobody_is_sent_elsewhere(shared_listener: Listener, wanted: str) -> None:
    browser = Browser(shared_listener)
    answer = browser.sign_in(next=wanted)
    assert answer.status_code == 303
    assert answer.headers["location"] in ("/", "/%0d%0aset-cookie:x")
    assert browser.request("GET", "/login", params={"next": wanted}).headers["location"] == answer.headers["location"]


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_a_link_on_another_site_leads_back_to_ones_session(browser: Browser, listener: Listener, site: str) -> None:
    """Its first request comes without the cookie; the page that answers asks again, and that one has it."""
    browser.sign_in()
    followed = Browser(listener).get("/?item=1&x=%22%3E", **{"sec-fetch-site": site})
    assert followed.status_code == 200
    assert '<meta http-equiv="refresh" content="0; url=/?item=1&amp;x=%22%3E">' in followed.text
    assert browser.get("/?item=1", **{"sec-fetch-site": "same-origin"}).status_code == 200
    assert Browser(listener).get("/", **{"sec-fetch-site": "same-origin"}).status_code == 303


def test_a_link_with_another_hosts_name_in_its_path_does_not_lead_there(listener: Listener) -> None:
    followed = Browser(listener, ORIGIN + "/").get(ORIGIN + "//evil.example/x", **{"sec-fetch-site": "cross-site"})
    assert "evil.example" not in followed.text
    assert 'url=/"' in followed.text


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "http://evil.example"},
        {"origin": "http://127.0.0.1:9000"},
        {"origin": "null"},
    ],
)
def test_forms_of_other_sites_are_refused_even_with_the_token(
    shared_listener: Listener, headers: dict[str, str]
) -> None:
    browser = Browser(shared_listener)
    browser.sign_in()
    answer = browser.post("/logout", {}, csrf_of(browser.get("/")), **headers)
    assert (answer.status_code, "Another site" in answer.text) == (403, True)
    assert browser.get("/").status_code == 200


def test_a_form_that_is_too_large_or_no_form_is_refused(browser: Browser) -> None:
    browser.sign_in()
    token = csrf_of(browser.get("/"))
    assert browser.post("/logout", {"x": "y" * (1 << 18)}, token).status_code == 413
    for content_type in ("application/json", "multipart/form-data; boundary=x", "text/plain", ""):
        answer = browser.request("POST", "/logout", content=b"{}", headers={"content-type": content_type})
        assert answer.status_code == 415
    assert browser.post("/logout", {str(number): "" for number in range(2_100)}, token).status_code == 400
    assert browser.get("/").status_code == 200


def test_texts_of_strangers_are_shown_as_texts(browser: Browser, listener: Listener) -> None:
    pages = [
        browser.sign_in(name=XSS),
        browser.request("GET", "/login", params={"next": XSS}),
        browser.request("GET", "/login", params={"next": "/" + XSS.replace(" ", "")}),
        Browser(listener).get(f"/{XSS}", **{"sec-fetch-site": "cross-site"}),
    ]
    browser.sign_in()
    pages += [browser.get(f"/{XSS}"), browser.request("GET", "/login", params={XSS: XSS})]
    for page in pages:
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text


def test_every_answer_tells_browsers_to_be_careful(browser: Browser, listener: Listener) -> None:
    answers = [browser.get(path) for path in ("/", "/login", "/nothing", "/static/payhook.css")]
    answers += [browser.sign_in(), browser.get("/"), browser.get("/nothing"), listener.request("GET", "/api/x")]
    assert {one.status_code for one in answers} == {200, 303, 404, 401}
    for one in answers:
        policy = one.headers["content-security-policy"]
        assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy and "http" not in policy
        assert one.headers["x-content-type-options"] == "nosniff"
        assert one.headers["referrer-policy"] == "same-origin"
        kept = "public, max-age=31536000, immutable" if "css" in one.headers.get("content-type", "") else "no-store"
        assert one.headers["cache-control"] == kept


def test_pages_have_no_inline_script_or_style_and_ask_nobody_else(browser: Browser) -> None:
    pages = [browser.get("/login"), browser.sign_in(password="wrong"), browser.get("/nothing")]
    browser.sign_in()
    for page in [*pages, browser.get("/"), browser.get("/nothing")]:
        text = page.text.lower()
        assert "style=" not in text and "<style" not in text and "onclick" not in text
        assert "://" not in text
        assert len(page.content) < 30_000


def test_a_style_sheet_changes_its_address_with_its_content_and_nothing_else_is_served(browser: Browser) -> None:
    page = browser.get("/login").text
    path = page.split('rel="stylesheet" href="')[1].split('"')[0]
    assert path.startswith("/static/payhook.css?v=")
    answer = browser.get(path)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")
    for other in (
        "/static/..%2fsettings.py",
        "/static/%2e%2e/settings.py",
        "/static/none.css",
        "/static/payhook.css%00",
    ):
        assert browser.get(other).status_code in (303, 404)


def test_sessions_that_cannot_be_read_are_a_503_and_probes_still_answer(browser: Browser, listener: Listener) -> None:
    browser.sign_in()
    listener.sessions.close()
    answer = browser.get("/")
    assert (answer.status_code, "This can&#39;t be answered now" in answer.text) == (503, True)
    assert answer.headers["cache-control"] == "no-store"
    assert listener.request("GET", "/api/x", ADA).status_code == 404
    assert Browser(listener).get("/static/payhook.css").status_code == 200
