"""A Redis that a receiver can't get into is one that is down: events go on as deferred, and the log says why."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from core.redis import Client
from load.bench.receiver import announce_generation
from load.certificates import Issuer
from load.client import wait_for
from stack.servers.redis import PAYHOOK
from tests.integration.ingest.conftest import PATIENT, ReceiverUnderTest, Servers, receiver_on
from tests.integration.ingest.test_receiver import outcome
from tests.redis_sites import RedisSite, has_tls

pytestmark = pytest.mark.more(reason="a Redis with TLS, and one behind Sentinels")

WAIT_S = 60.0


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisSite]:
    """One server with TLS that asks for a client's certificate."""
    with RedisSite(tmp_path_factory.mktemp("secured"), tls=True, asks=True).alone() as site:
        with site.nodes[0].admin() as client:
            announce_generation(client)
        yield site


def outcomes(receiver: ReceiverUnderTest, event_id: str, count: int = 2) -> list[tuple[int, bool]]:
    """Of the same webhook: its status, and whether the answer says that it was known before."""
    signed = receiver.stripe(event_id)
    return [outcome(receiver.post(signed)) for _ in range(count)]


NEW, KNOWN = (200, False), (200, True)


def log_of(receiver: ReceiverUnderTest) -> str:
    return receiver.process.server.log.read_text("utf-8")


def wrong_password(site: RedisSite, _folder: Path) -> tuple[dict[str, object], str]:
    file = site.folder / "wrong.credentials"
    file.write_text(f"{PAYHOOK}\nguessed\n")
    return {"credentials_file": str(file)}, "AuthenticationError invalid username-password pair or user is disabled"


def wrong_issuer(_site: RedisSite, folder: Path) -> tuple[dict[str, object], str]:
    return {"ca_file": str(Issuer.make(folder, "another").ca)}, "certificate verify failed"


def expired_client(site: RedisSite, _folder: Path) -> tuple[dict[str, object], str]:
    return {"certificate_file": str(site.issuer.issue("expired", expired=True))}, "certificate expired"


def no_client(_site: RedisSite, _folder: Path) -> tuple[dict[str, object], str]:
    return {"certificate_file": ""}, "certificate required"


def without_tls(site: RedisSite, _folder: Path) -> tuple[dict[str, object], str]:
    plain: dict[str, object] = {"url": site.url(site.nodes[0].port).replace("rediss", "redis"), "ca_file": ""}
    return plain | {"certificate_file": ""}, "Connection"


@pytest.mark.parametrize("wrong", [wrong_password, wrong_issuer, expired_client, no_client, without_tls])
def test_what_redis_refuses_is_said_and_events_go_on(
    servers: Servers,
    secured: RedisSite,
    tmp_path: Path,
    wrong: Callable[[RedisSite, Path], tuple[dict[str, object], str]],
) -> None:
    changes, said = wrong(secured, tmp_path)
    where = {"url": secured.url(secured.nodes[0].port)}
    with receiver_on(servers, PATIENT, **secured.variables(**{**where, **changes})) as receiver:
        assert outcomes(receiver, "1") == [NEW, NEW]
        assert [headers["dedupe"] for *_, headers in receiver.published(2)] == ["deferred"] * 2
        log = log_of(receiver)
    assert "events are published as deferred, without a claim: Redis can't be asked: " in log
    assert said in log
    assert secured.passwords[PAYHOOK] not in log and "guessed" not in log


def test_password_and_certificates_are_changed_while_it_runs(servers: Servers, secured: RedisSite) -> None:
    """The server's certificate runs out and is renewed; then the user's password and the client's are replaced."""
    with receiver_on(servers, PATIENT, **secured.variables()) as receiver, secured.nodes[0].admin() as admin:
        another = map(str, itertools.count(100))
        assert outcomes(receiver, "1") == [NEW, KNOWN]
        use(admin, secured.issuer.issue("over", expired=True))
        assert wait_for(lambda: "certificate has expired" in log_of(receiver), WAIT_S)
        assert outcomes(receiver, "2")[0] == NEW
        use(admin, secured.certificate)
        assert wait_for(lambda: outcomes(receiver, next(another)) == [NEW, KNOWN], WAIT_S)

        secured.passwords[PAYHOOK] = "another"
        admin.acl_setuser(PAYHOOK, enabled=True, reset_passwords=True, passwords=["+another"])
        secured.write_credentials()
        replaced = secured.issuer.issue("client")
        assert replaced == secured.client_certificate
        admin.client_kill_filter(_type="normal", skipme=True)
        assert wait_for(lambda: outcomes(receiver, next(another)) == [NEW, KNOWN], WAIT_S)


def use(admin: Client, certificate: Path) -> None:
    """The server has this one for each new connection, which all that it had now become."""
    admin.execute_command("CONFIG SET", "tls-cert-file", str(certificate), "tls-key-file", str(certificate))
    admin.client_kill_filter(_type="normal", skipme=True)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisSite]:
    with RedisSite(tmp_path_factory.mktemp("watched"), tls=has_tls()).watched() as site:
        with site.primary_client() as client:
            announce_generation(client)
        yield site


def test_sentinels_that_name_a_dead_primary_or_nothing_are_quoted(servers: Servers, watched: RedisSite) -> None:
    """A failover isn't possible, for the replica isn't one any more; then all Sentinels are gone, and return."""
    primary, replica = watched.nodes
    with receiver_on(servers, PATIENT, **watched.variables()) as receiver:
        assert outcomes(receiver, "1") == [NEW, KNOWN]
        with replica.admin() as client:
            client.config_set("replica-priority", 0)
        primary.kill()
        assert wait_for(lambda: f"{primary.name} is down" in log_of(receiver), WAIT_S)
        assert outcomes(receiver, "2") == [NEW, NEW]
        primary.start()
        assert wait_for(lambda: outcomes(receiver, "1") == [KNOWN, KNOWN], WAIT_S)
        for sentinel in watched.sentinels:
            sentinel.kill()
        assert outcomes(receiver, "3") == [NEW, KNOWN], "who is connected needs no Sentinel"
        with primary.admin() as client:
            client.client_kill_filter(_type="normal", skipme=True)
        assert wait_for(lambda: "no sentinel names a primary for 'claims': " in log_of(receiver), WAIT_S)
        assert outcomes(receiver, "4") == [NEW, NEW]
        for sentinel in watched.sentinels:
            sentinel.start()
        assert wait_for(lambda: outcomes(receiver, "1") == [KNOWN, KNOWN], WAIT_S)


def test_a_service_that_sentinels_dont_watch_is_named(servers: Servers, watched: RedisSite) -> None:
    with receiver_on(servers, PATIENT, **watched.variables(sentinel_service="other")) as receiver:
        assert outcomes(receiver, "1") == [NEW, NEW]
        assert "no sentinel names a primary for 'other': it isn't watched" in log_of(receiver)
