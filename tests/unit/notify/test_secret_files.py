"""Secrets and header values come from notify's own files, whatever the subscribers file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.decision import ErrorKind
from core.work import Applied
from notify.errors import FileUnusable, NotTaken
from tests.unit.notify.place import SubscribersFolder, item
from tests.unit.notify.receiver import SubscriberServer, status


def with_token(place: SubscribersFolder, receiver: SubscriberServer, file: str | Path) -> None:
    place.add("shop", receiver.port, f'headers = {{authorization = {{file = "{file}"}}}}')


def write(path: Path, text: str = "Bearer abc\n") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    "file", ["secrets/notify.shop.token", "secrets/notify/token", "secrets/notify/a/b", "secrets/../secrets/notify.x"]
)
def test_notifys_own_files_are_read(place: SubscribersFolder, receiver: SubscriberServer, file: str) -> None:
    with_token(place, receiver, file)
    write(place.folder / file)
    assert place.handler()(item("shop")) == Applied()
    assert receiver.requests[0].headers["authorization"] == "Bearer abc"


@pytest.mark.parametrize(
    "file",
    [
        *("secrets/stripe", "token", "keys/token", "subscribers.toml", "../token", "secrets/notify/../stripe"),
        *("secrets/notify/../../../token", "secrets/notify", "secrets/notify.d/token", "/etc/hostname"),
    ],
)
def test_any_other_file_is_refused_unread(place: SubscribersFolder, receiver: SubscriberServer, file: str) -> None:
    with_token(place, receiver, file)
    with pytest.raises(FileUnusable, match=r"notify reads no secret there\. Put it below .*secrets/notify/") as refused:
        place.handler()(item("shop"))
    assert refused.value.kind is ErrorKind.SNBE
    assert receiver.connections == 0


def test_a_link_that_leads_out_is_refused(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    with_token(place, receiver, "secrets/notify.shop.token")
    (place.folder / "secrets" / "notify.shop.token").symlink_to(write(place.folder / "secrets" / "stripe"))
    with pytest.raises(FileUnusable, match="notify reads no secret there"):
        place.handler()(item("shop"))


def test_links_in_a_ring_are_refused(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    with_token(place, receiver, "secrets/notify.shop.token")
    link = place.folder / "secrets" / "notify.shop.token"
    link.symlink_to(link)
    with pytest.raises(FileUnusable):
        place.handler()(item("shop"))


def test_signing_secrets_are_held_to_the_same(place: SubscribersFolder, receiver: SubscriberServer) -> None:
    place.add("shop", receiver.port, 'secrets = "secrets/stripe"')
    write(place.folder / "secrets" / "stripe", "whsec_c2VjcmV0c2VjcmV0c2VjcmV0\n")
    with pytest.raises(FileUnusable, match="notify reads no secret there"):
        place.handler()(item("shop"))


def test_another_folder_can_be_allowed(
    place: SubscribersFolder, receiver: SubscriberServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As a mounted secret is: a link within the folder that is allowed."""
    mounted = tmp_path_factory.mktemp("mounted")
    place.settings["secrets_dir"] = str(mounted)
    with_token(place, receiver, mounted / "token")
    (mounted / "token").symlink_to(write(mounted / "..data" / "token"))
    assert place.handler()(item("shop")) == Applied()
    (mounted / "token").unlink()
    (mounted / "token").symlink_to(write(place.folder / "elsewhere"))
    with pytest.raises(FileUnusable, match="notify reads no secret there"):
        place.handler()(item("shop"))


@pytest.mark.parametrize("code", [422, 503])
def test_an_answer_that_repeats_a_secret_header_is_kept_without_it(
    place: SubscribersFolder, receiver: SubscriberServer, code: int
) -> None:
    with_token(place, receiver, "secrets/notify.shop.token")
    write(place.folder / "secrets" / "notify.shop.token", "Bearer abc-def-ghi\n")
    receiver.replies(status(code, body=b'{"authorization": "Bearer abc-def-ghi", "token": "abc-def-ghi"}'))
    with pytest.raises(NotTaken) as failed:
        place.handler()(item("shop"))
    assert failed.value.said.strip("'") == '{"authorization": "Bearer (authorization)", "token": "(authorization)"}'
