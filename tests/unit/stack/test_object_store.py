"""Where the lake is by the settings, and what everything in a process is told of its store."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError

from core.errors import SettingError
from core.layout import Layout
from core.location import LakeUrl
from core.spark import jars_conf
from core.store import CREDENTIALS, StorageSettings, part_with_keys, set_store_env
from stack import jars
from stack.errors import StoreJarsMissing, StoreUnreadBySpark
from stack.settings import load_settings

URL = "s3://lake-1/payhook"
MINE = StorageSettings(url=URL, endpoint="http://127.0.0.1:9000", allow_http=True)


@pytest.mark.parametrize(
    ("wrong", "reported"),
    [
        ({"url": "ftp://lake/x"}, "s3://bucket/folder"),
        ({"url": "abfss://lake@account/x"}, "az://container/folder"),
        ({"url": "gs://lake/x"}, "az://container/folder"),
        ({"url": "s3://UPPER/x"}, "s3://bucket/folder"),
        ({"url": "s3://lake/a b"}, "s3://bucket/folder"),
        ({"url": URL, "endpoint": "minio:9000"}, "https://"),
        ({"url": URL, "endpoint": "http://minio:9000"}, "allow_http"),
    ],
)
def test_what_names_no_store_is_refused(wrong: dict[str, str], reported: str) -> None:
    with pytest.raises(ValidationError, match=reported):
        StorageSettings(**wrong)


def test_a_lake_is_in_the_data_folder_or_where_it_is_said_to_be(tmp_path: Path) -> None:
    assert Layout(tmp_path).ledger("test").bodies_table == tmp_path / "lake" / "bodies-test"
    there = Layout(tmp_path, URL)
    assert there.ledger().journal == LakeUrl(f"{URL}/journal/ledger")
    assert str(there.stream("notify").derived_table("redactions")) == f"{URL}/redactions"
    assert str(there.audit_log) == f"{URL}/acts"
    assert there.ledger().index == tmp_path / "index" / "ledger"


def test_the_settings_of_a_process_tell_it_of_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_REGION", "AWS_ENDPOINT_URL", "AWS_CONDITIONAL_PUT", "AWS_ALLOW_HTTP", "AWS_TIMEOUT"):
        monkeypatch.setenv(name, "before")
    for name in ("AWS_CONNECT_TIMEOUT", "AWS_VIRTUAL_HOSTED_STYLE_REQUEST"):
        monkeypatch.setenv(name, "before")
    monkeypatch.setenv("PAYHOOK_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("PAYHOOK_STORAGE__URL", URL)
    monkeypatch.setenv("PAYHOOK_STORAGE__ENDPOINT", "https://store.internal")
    settings = load_settings()
    assert str(settings.layout.lake) == URL
    assert os.environ["AWS_ENDPOINT_URL"] == "https://store.internal"
    assert (os.environ["AWS_CONDITIONAL_PUT"], os.environ["AWS_ALLOW_HTTP"]) == ("etag", "false")


def test_a_lake_on_a_disk_changes_nothing_in_the_process(tmp_path: Path) -> None:
    env: dict[str, str] = {}
    set_store_env(StorageSettings(), tmp_path, "", env)
    set_store_env(StorageSettings(), tmp_path, str(tmp_path), env)
    assert env == {}


def test_keys_are_two_lines_of_a_file(tmp_path: Path) -> None:
    (tmp_path / CREDENTIALS).write_text("the id\n\nthe secret\n", "utf-8")
    env = {"AWS_ACCESS_KEY_ID": "another"}
    set_store_env(MINE, tmp_path, URL, env)
    assert (env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"]) == ("the id", "the secret")


def test_processes_that_this_one_starts_get_no_keys_of_a_file(tmp_path: Path) -> None:
    env = {"AWS_ACCESS_KEY_ID": "its own", "AWS_SECRET_ACCESS_KEY": "its own"}
    part_with_keys(MINE, tmp_path, env)
    assert len(env) == 2, "without a file they are the environment's, and stay there"
    (tmp_path / CREDENTIALS).write_text("id\nsecret\n", "utf-8")
    set_store_env(MINE, tmp_path, URL, env)
    part_with_keys(MINE, tmp_path, env)
    assert not {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} & env.keys()
    assert env["AWS_ENDPOINT_URL"] == MINE.endpoint


def test_without_a_file_the_process_keeps_its_own_keys(tmp_path: Path) -> None:
    env = {"AWS_ACCESS_KEY_ID": "its own"}
    set_store_env(MINE, tmp_path, URL, env)
    assert env["AWS_ACCESS_KEY_ID"] == "its own" and "AWS_SECRET_ACCESS_KEY" not in env


@pytest.mark.parametrize("text", [None, "", "one line", "one\ntwo\nthree"])
def test_a_file_of_keys_that_is_none_is_named_and_its_text_is_not_told(tmp_path: Path, text: str | None) -> None:
    named = tmp_path / "keys"
    if text is not None:
        named.write_text(text, "utf-8")
    with pytest.raises(SettingError, match="storage.credentials_file") as wrong:
        set_store_env(MINE.model_copy(update={"credentials_file": str(named)}), tmp_path, URL, {})
    assert str(named) in str(wrong.value) and "one" not in str(wrong.value).replace(str(named), "")


def test_spark_without_jars_for_a_store_says_how_to_get_them(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(jars, "find_installed_jars", lambda *_: [])
    monkeypatch.setattr(jars, "STORE_LIST", (jars.STORE_LIST[0], tmp_path))
    assert jars.spark_jars(tmp_path) == []
    with pytest.raises(StoreJarsMissing, match="make setup OBJECT_STORE=1"):
        jars.spark_jars(LakeUrl(URL))
    with pytest.raises(StoreUnreadBySpark, match="docs/storage.md"):
        jars.spark_jars(LakeUrl("az://lake/payhook"))


def test_spark_is_reported_of_the_same_store(monkeypatch: pytest.MonkeyPatch) -> None:
    env: dict[str, str] = {}
    set_store_env(MINE, Path("none"), URL, env)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    conf = jars_conf([Path("delta.jar"), Path("hadoop-aws-3.5.0.jar")], "local[2]")
    assert conf["spark.hadoop.fs.s3a.endpoint"] == MINE.endpoint
    assert conf["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert conf["spark.hadoop.fs.s3a.connection.ssl.enabled"] == "false"
    assert not any("s3a" in name for name in jars_conf([Path("delta.jar")], "local[2]"))
