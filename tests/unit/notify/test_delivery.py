"""Requests within limits: addresses that were checked, times that end, answers that are cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path

import pytest

from core.decision import ErrorKind
from core.files import write_whole
from core.work import Applied, Ignored, limited_by
from load.certificates import Issuer
from notify.delivery import BODY_BYTES_MAX
from notify.errors import AddressRefused, FileUnusable, NotTaken, Unreachable
from notify.settings import Allowance
from tests.unit.notify.calls import SubscriberCalls
from tests.unit.notify.place import HOST, FixedResolver, SubscribersFolder, item, row
from tests.unit.notify.receiver import OK, SubscriberServer, receiving, shows, status

METADATA = "169.254.169.254"


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def test_the_same_connection_carries_the_next_event(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port)
    handler = place.handler()
    for number in range(5):
        handler(item("shop", row(f"evt_{number}")))
    assert (receiver.connections, place.resolver.asked) == (1, 1)


@pytest.mark.parametrize(
    "addresses",
    [
        *([METADATA], ["10.0.0.1"], ["::1"], ["::ffff:169.254.169.254"], ["64:ff9b::a9fe:a9fe"], ["fe80::1%eth0"]),
        *(["127.0.0.1", "10.0.0.1"], ["127.0.0.1", "::1"]),
    ],
)
def test_a_name_is_refused_when_one_of_its_addresses_is(
    place: SubscribersFolder, receiver: SubscriberServer, addresses: list[str]
) -> None:
    place.add("shop", receiver.port)
    place.resolver = FixedResolver(addresses)
    calls = SubscriberCalls()
    with limited_by(calls), pytest.raises(AddressRefused, match=HOST) as refused:
        place.handler()(item("shop"))
    assert receiver.connections == 0
    assert refused.value.kind is ErrorKind.SNBE
    assert [type(failure) for failure in calls.failures] == [AddressRefused]


def test_loopback_needs_to_be_allowed(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port)
    place.settings["allow"]["shop"] = Allowance(ports=(receiver.port,), http=True)
    with pytest.raises(AddressRefused, match=r"127\.0\.0\.1 isn't a public address.*\[notify.allow.shop\]"):
        place.handler()(item("shop"))
    assert receiver.connections == 0


def test_what_one_subscriber_may_reach_another_may_not(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port)
    place.add("bank", receiver.port)
    del place.settings["allow"]["bank"]
    with pytest.raises(AddressRefused, match="only https"):
        place.handler()(item("bank"))
    assert place.handler()(item("shop")) == Applied()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", METADATA])
def test_an_address_in_the_url_is_checked_without_asking_anybody(
    place: SubscribersFolder, receiver: SubscriberServer, host: str
) -> None:
    place.add("shop", receiver.port, host=host)
    place.settings["allow"]["shop"] = Allowance(ports=(receiver.port,), http=True)
    with pytest.raises(AddressRefused, match="public|credentials"):
        place.handler()(item("shop"))
    assert place.resolver.asked == 0


def test_a_name_that_changes_between_check_and_connection_leads_nowhere_else(
    place: SubscribersFolder, receiver: SubscriberServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DNS rebinding: the second answer of the attacker's server would be the metadata address. It is never asked."""
    place.add("shop", receiver.port)
    place.resolver = FixedResolver(["127.0.0.1"], [METADATA])
    looked_up: list[object] = []
    resolve = socket.getaddrinfo

    def recorded(host: object, *rest: object, **options: object) -> object:
        looked_up.append(host)
        return resolve(host, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "getaddrinfo", recorded)
    assert place.handler()(item("shop")) == Applied()
    assert place.resolver.asked == 1
    assert {str(host) for host in looked_up} <= {"127.0.0.1"}
    assert receiver.requests[0].headers["host"] == f"{HOST}:{receiver.port}"


def test_a_name_is_asked_for_again_and_checked_again(
    place: SubscribersFolder, receiver: SubscriberServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notify.delivery.ADDRESSES_KEPT_S", 0.0)
    place.add("shop", receiver.port)
    place.resolver = FixedResolver(["127.0.0.1"], [METADATA])
    handler = place.handler()
    assert handler(item("shop")) == Applied()
    with pytest.raises(AddressRefused):
        handler(item("shop"))
    assert len(receiver.requests) == 1


def test_an_address_that_refuses_is_passed_over_for_the_next(
    place: SubscribersFolder, receiver: SubscriberServer
) -> None:
    place.add("shop", receiver.port)
    place.resolver = FixedResolver(["127.0.0.2", "127.0.0.1"])
    handler = place.handler()
    assert handler(item("shop")) == Applied()
    assert handler(item("shop")) == Applied()
    assert receiver.connections == 1


def test_the_certificate_must_be_the_names(place: SubscribersFolder, issuer: Issuer) -> None:
    place.settings["ca_file"] = str(issuer.ca)
    with receiving(shows(issuer, HOST)) as right, receiving(shows(issuer, "other.example.com")) as wrong:
        place.add("shop", right.port, scheme="https")
        place.add("bank", wrong.port, scheme="https")
        assert place.handler()(item("shop")) == Applied()
        calls = SubscriberCalls()
        with limited_by(calls), pytest.raises(Unreachable, match=r"(?i)hostname mismatch"):
            place.handler()(item("bank"))
        assert len(calls.failures) == 1
        assert wrong.requests == []


def test_a_certificate_that_nobody_vouches_for_is_refused(place: SubscribersFolder, issuer: Issuer) -> None:
    with receiving(shows(issuer, HOST)) as server:
        place.add("shop", server.port, scheme="https")
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            place.handler()(item("shop"))
        assert server.requests == []


def test_authorities_that_were_changed_count_from_the_next_request_on(
    place: SubscribersFolder, issuer: Issuer, tmp_path: Path
) -> None:
    ca = tmp_path / "ca.pem"
    write_whole(ca, Issuer.make(tmp_path / "other", "other issuer").ca.read_text())
    place.settings["ca_file"] = str(ca)
    with receiving(shows(issuer, HOST)) as server:
        place.add("shop", server.port, scheme="https")
        handler = place.handler()
        with pytest.raises(Unreachable, match="CERTIFICATE_VERIFY_FAILED"):
            handler(item("shop"))
        for unusable in ("", "no certificate"):
            write_whole(ca, unusable)
            with pytest.raises(FileUnusable, match=r"ca\.pem"):
                handler(item("shop"))
        write_whole(ca, issuer.ca.read_text())
        assert handler(item("shop")) == Applied()
        assert handler(item("shop", row("evt_2"))) == Applied()
        assert server.connections == 2, "one that failed, and one that is kept"


def test_plain_http_where_tls_is_wanted_is_no_delivery(
    place: SubscribersFolder, receiver: SubscriberServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notify.sender.CONNECT_S_MAX", 0.2)
    place.add("shop", receiver.port, scheme="https")
    with pytest.raises(Unreachable):
        place.handler()(item("shop"))
    assert receiver.requests == []


def test_a_redirect_isnt_followed(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    with receiving() as elsewhere:
        place.add("shop", receiver.port)
        receiver.replies(status(307, f"location: http://127.0.0.1:{elsewhere.port}/"))
        with pytest.raises(NotTaken, match="redirects aren't followed, set the new url"):
            place.handler()(item("shop"))
        assert elsewhere.connections == 0


def test_nobody_listening_is_a_failure_of_the_downstream(place: SubscribersFolder) -> None:
    place.add("shop", closed_port())
    calls = SubscriberCalls()
    with limited_by(calls), pytest.raises(Unreachable, match="no connection to 127.0.0.1") as failed:
        place.handler()(item("shop"))
    assert calls.failures == [failed.value]
    assert failed.value.kind is ErrorKind.SNBE


def test_a_name_that_isnt_known_is_a_failure_of_the_downstream(
    place: SubscribersFolder, receiver: SubscriberServer
) -> None:
    class Nobody(FixedResolver):
        def addresses(self, host: str, port: int) -> list[str]:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    place.add("shop", receiver.port)
    place.resolver = Nobody()
    with pytest.raises(Unreachable, match=f"{HOST} can't be resolved: .*not known"):
        place.handler()(item("shop"))


def silent(receiver: SubscriberServer) -> None:
    receiver.ended.wait()


def dripping_head(receiver: SubscriberServer, connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not receiver.ended.wait(0.02):
        connection.sendall(b"x-a: b\r\n")


def test_a_silent_receiver_costs_its_time_and_no_more(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port, "timeout_s = 0.3")
    receiver.answer = lambda _: silent(receiver)
    calls = SubscriberCalls()
    with limited_by(calls), pytest.raises(Unreachable, match=r"no answer within 0.3 s"):
        place.handler()(item("shop"))
    assert len(calls.failures) == 1


def test_a_head_that_drips_ends_when_the_time_is_over(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    """Each piece comes well within the read timeout: only the time of the whole request ends it."""
    place.add("shop", receiver.port, "timeout_s = 0.3")
    receiver.answer = lambda connection: dripping_head(receiver, connection)
    with pytest.raises(Unreachable, match=r"no answer within 0.3 s"):
        place.handler()(item("shop"))


def test_the_read_timeout_is_its_own(
    place: SubscribersFolder, receiver: SubscriberServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notify.sender.SILENCE_S_MAX", 0.2)
    place.add("shop", receiver.port)
    receiver.answer = lambda _: silent(receiver)
    with pytest.raises(Unreachable, match="ReadTimeout"):
        place.handler()(item("shop"))


def test_a_resolver_that_hangs_costs_its_subscriber_alone(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    released = threading.Event()

    class HangingResolver(FixedResolver):
        def addresses(self, host: str, port: int) -> list[str]:
            if host == HOST:
                self.asked += 1
                released.wait(60)
            return ["127.0.0.1"]

    place.add("shop", receiver.port, "timeout_s = 0.2")
    place.add("bank", receiver.port, host="bank.example.com")
    place.resolver = HangingResolver()
    handler = place.handler()
    for _ in range(3):
        with pytest.raises(Unreachable, match=r"no answer within 0.2 s"):
            handler(item("shop"))
    assert handler(item("bank")) == Applied()
    assert place.resolver.asked == 1
    released.set()


@pytest.mark.parametrize("code", [200, 410, 500])
def test_the_status_counts_although_the_body_never_ends(
    place: SubscribersFolder, receiver: SubscriberServer, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    monkeypatch.setattr("notify.delivery.BODY_WAIT_S", 0.2)

    def drips(connection: socket.socket) -> None:
        connection.sendall(f"HTTP/1.1 {code} said\r\ncontent-length: 1000000\r\n\r\nxx".encode())
        while not receiver.ended.wait(0.02):
            connection.sendall(b"x")

    place.add("shop", receiver.port)
    receiver.answer = drips
    handler = place.handler()
    if code == 500:
        with pytest.raises(NotTaken, match="it said 'xx"):
            handler(item("shop"))
    else:
        assert isinstance(handler(item("shop")), Applied if code == 200 else Ignored)
    assert not receiver.ended.is_set()


def test_a_huge_answer_is_cut_and_not_held_in_memory(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    sent = [0]
    gone = threading.Event()

    def floods(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        with contextlib.suppress(OSError):
            while sent[0] < 2**30:
                connection.sendall(b"10000\r\n" + b"x" * 65_536 + b"\r\n")
                sent[0] += 65_536
        gone.set()

    place.add("shop", receiver.port)
    receiver.answer = floods
    handler = place.handler()
    assert handler(item("shop")) == Applied()
    assert gone.wait(30)
    assert sent[0] < 2**26
    receiver.replies(OK)
    assert handler(item("shop")) == Applied()
    assert receiver.connections == 2


def test_a_compressed_answer_isnt_unpacked(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port)
    receiver.replies(status(400, "content-encoding: gzip", body=b"\x1f\x8b" + b"\x00" * BODY_BYTES_MAX))
    with pytest.raises(NotTaken, match="400"):
        place.handler()(item("shop"))
    assert receiver.requests[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 abc\r\n\r\n", b"SSH-2.0-OpenSSH\r\n", b"HTTP/1.1 200 OK\r\n" + b"x" * 200_000]
)
def test_what_is_no_http_is_no_delivery(place: SubscribersFolder, receiver: SubscriberServer, answer: bytes) -> None:
    def says(connection: socket.socket) -> None:
        connection.sendall(answer)
        connection.shutdown(socket.SHUT_RDWR)

    place.add("shop", receiver.port)
    receiver.answer = says
    with pytest.raises(Unreachable):
        place.handler()(item("shop"))


def test_no_proxy_of_the_environment_stands_between(
    place: SubscribersFolder, receiver: SubscriberServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with receiving() as proxy:
        for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        place.add("shop", receiver.port)
        assert place.handler()(item("shop")) == Applied()
        assert proxy.connections == 0


def test_cookies_arent_kept(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port)
    receiver.replies(status(200, "set-cookie: a=b; Path=/"))
    handler = place.handler()
    handler(item("shop"))
    handler(item("shop"))
    assert "cookie" not in receiver.requests[1].headers


def test_closing_ends_requests_under_way(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port)
    started = threading.Event()

    def waits(_: socket.socket) -> None:
        started.set()
        silent(receiver)

    receiver.answer = waits
    handler, ended = place.handler(), threading.Event()

    def work() -> None:
        with contextlib.suppress(BaseException):
            handler(item("shop"))
        ended.set()

    threading.Thread(target=work, daemon=True).start()
    assert started.wait(30)
    handler.close()
    assert ended.wait(30)
