"""How Redis is reached: what contradicts itself is refused, and says what to do; no password is repeated."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from redis.exceptions import AuthenticationError

from core.errors import SettingError
from core.redis import FileCredentials, Tls, check_redis
from core.settings import RedisSettings
from load.certificates import Issuer
from stack.settings import load_settings

SENTINELS = {"sentinels": ["a:26379", "[::1]:26379"], "sentinel_service": "claims"}
TLS = {"url": "rediss://redis:6379/0"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"url": "http://redis"}, "begins with redis:// or rediss://"),
        ({"url": "redis://redis:port/0"}, "can't be read: write redis://HOST:PORT/DATABASE"),
        ({"url": "redis://redis/first"}, "must end with the number of a database"),
        ({"url": "redis://redis/0?ssl_cert_reqs=none"}, "takes no option but db"),
        ({"url": "redis:///0"}, "names no host; without one redis.sentinels is needed"),
        ({"url": "redis://u:hidden@redis/0", "credentials_file": "f"}, "leave out one"),
        ({"url": "redis://redis", "ca_file": "f"}, "begin redis.url with rediss://"),
        ({"url": "redis://redis", "certificate_file": "f"}, "begin redis.url with rediss://"),
        ({"sentinels": ["a:1"]}, "redis.sentinel_service is missing"),
        ({"sentinel_service": "claims"}, "redis.sentinels is missing"),
        ({"sentinel_credentials_file": "f"}, "redis.sentinels is missing"),
        ({**SENTINELS, "sentinels": ["a"]}, "has 'a': write HOST:PORT"),
        ({**SENTINELS, **TLS}, "names a server, and redis.sentinels is set"),
        ({**SENTINELS, "url": "unix:///redis.sock"}, "names a server, and redis.sentinels is set"),
        ({**SENTINELS, "url": "redis://u:hidden@/0"}, "with Sentinel they stand in redis.credentials_file"),
        ({**SENTINELS, "cluster": True}, "redis.sentinels and redis.cluster are both set"),
        ({"url": "redis://redis/1", "cluster": True}, "a cluster has only database 0"),
        ({"url": "unix:///redis.sock", "cluster": True}, "a cluster has only database 0"),
    ],
)
def test_what_contradicts_itself_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        RedisSettings.model_validate(given)
    message = refused.value.errors()[0]["msg"]
    assert said in message
    assert "hidden" not in message


def test_it_is_named_by_its_section(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAYHOOK_REDIS__URL", "redis://u:hidden@redis:6379port/0")
    with pytest.raises(SettingError, match=r"setting redis .*redis\.url can't be read") as refused:
        load_settings()
    assert "hidden" not in str(refused.value)


def test_the_forms_that_there_are() -> None:
    plain, tls = RedisSettings(), RedisSettings.model_validate(TLS)
    assert (plain.is_tls, plain.database_number, tls.is_tls) == (False, 0, True)
    assert RedisSettings(url="unix://u:p@%2Ftmp%2Fredis.sock?db=3").database_number == 3
    watched = RedisSettings.model_validate({**SENTINELS, "url": "rediss:///2"})
    assert (watched.is_tls, watched.database_number) == (True, 2)
    assert watched.sentinel_addresses == [("a", 26379), ("::1", 26379)]
    assert not RedisSettings.model_validate(SENTINELS).is_tls
    assert RedisSettings(url="redis://redis:6379", cluster=True).cluster


@pytest.mark.parametrize("name", ["credentials_file", "sentinel_credentials_file"])
def test_a_file_of_credentials_that_cant_be_read_is_named(name: str, tmp_path: Path) -> None:
    more = SENTINELS if name.startswith("sentinel") else {}
    settings = RedisSettings.model_validate({**more, name: str(tmp_path / "missing")})
    with pytest.raises(SettingError, match=rf"redis\.{name}: .*missing can't be read"):
        check_redis(settings)


def test_files_that_are_no_certificates_are_named(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    issuer = Issuer.make(tmp_path)
    certificate, other = issuer.issue("client"), issuer.issue("other")
    key, _, own = certificate.read_text().partition("-----BEGIN CERTIFICATE")
    of_another = key + "".join(other.read_text().partition("-----BEGIN CERTIFICATE")[1:])
    for name, pem in (("keyless", f"-----BEGIN CERTIFICATE{own}"), ("mixed", of_another)):
        (tmp_path / name).write_text(pem)
    text, missing, keyless, mixed = (str(tmp_path / name) for name in ("text", "missing", "keyless", "mixed"))
    for given, setting in (
        ({"ca_file": text}, "ca_file"),
        ({"ca_file": missing}, "ca_file"),
        ({"certificate_file": text}, "certificate_file"),
        ({"certificate_file": missing}, "certificate_file"),
        ({"certificate_file": keyless}, "certificate_file"),
        ({"certificate_file": mixed}, "certificate_file"),
    ):
        with pytest.raises(SettingError, match=rf"redis\.{setting}"):
            check_redis(RedisSettings.model_validate({**TLS, **given}))
    check_redis(RedisSettings.model_validate({**TLS, "certificate_file": str(certificate)}))


def test_credentials_are_those_of_the_file_now(tmp_path: Path) -> None:
    file = tmp_path / "redis"
    file.write_text("payhook\nfirst\n")
    credentials = FileCredentials(file, "redis.credentials_file")
    assert credentials.get_credentials() == ("payhook", "first")
    file.write_text("payhook\nsecond\n")
    assert credentials.get_credentials() == ("payhook", "second")
    file.unlink()
    with pytest.raises(AuthenticationError, match=r"redis\.credentials_file: .* can't be read"):
        credentials.get_credentials()


def test_connections_share_a_context_until_a_file_changes(tmp_path: Path) -> None:
    issuer = Issuer.make(tmp_path)
    tls = Tls(RedisSettings.model_validate({**TLS, "ca_file": str(issuer.ca)}))
    first = tls.get()
    assert tls.get() is first
    assert len(first.get_ca_certs()) == 1, "nobody else's are believed"
    until = time.monotonic() + 10
    while tls.get() is first and time.monotonic() < until:
        Issuer.make(tmp_path)
    assert tls.get() is not first
