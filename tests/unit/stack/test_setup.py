"""Set-up makes an environment of the checkout's own, and never removes what it didn't make."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from stack import setup
from stack.errors import SetupFailed

THIS = f"{sys.version_info[0]}.{sys.version_info[1]}"


class Venv:
    """Remembers what was made instead of making it."""

    def __init__(self) -> None:
        self.made: list[tuple[Path, bool]] = []

    def create(self, environment: Path, *, with_pip: bool, symlinks: bool, clear: bool) -> None:
        self.made.append((environment, clear))
        environment.mkdir(exist_ok=True)


@pytest.fixture
def venv(monkeypatch: pytest.MonkeyPatch) -> Venv:
    made = Venv()
    monkeypatch.setattr(setup, "venv", made)
    return made


def make(environment: Path) -> None:
    setup._make_venv(environment, environment / "stamp.json")


def there(environment: Path, version: str, checkout: Path | None = None) -> Path:
    """An environment of that Python, stamped by the set-up of ``checkout`` if one is given."""
    environment.mkdir(parents=True)
    (environment / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = {version}.1\n")
    if checkout is not None:
        (environment / "stamp.json").write_text(json.dumps({"checkout": str(checkout)}))
    return environment


def test_where_there_is_none_one_is_made_and_stamped(tmp_path: Path, venv: Venv) -> None:
    make(tmp_path / ".venv")
    assert venv.made == [(tmp_path / ".venv", False)]
    assert json.loads((tmp_path / ".venv" / "stamp.json").read_text()) == {"checkout": str(tmp_path)}


def test_one_of_the_same_python_is_kept_whoever_made_it(tmp_path: Path, venv: Venv) -> None:
    make(there(tmp_path / "a" / ".venv", THIS))
    make(there(tmp_path / "b" / ".venv", THIS, checkout=tmp_path / "b"))
    assert [clear for _, clear in venv.made] == [False, False]


@pytest.mark.parametrize(("version", "checkout"), [("3.9", "here"), (THIS, "elsewhere")])
def test_set_up_s_own_is_made_anew_for_another_python_or_place(
    tmp_path: Path, venv: Venv, version: str, checkout: str
) -> None:
    make(there(tmp_path / "here" / ".venv", version, checkout=tmp_path / checkout))
    assert [clear for _, clear in venv.made] == [True]


def test_somebody_else_s_that_will_not_do_is_left_alone(tmp_path: Path, venv: Venv) -> None:
    with pytest.raises(SetupFailed, match="was made by something else: move it away"):
        make(there(tmp_path / ".venv", "3.9"))
    assert venv.made == []


def test_a_link_is_never_followed(tmp_path: Path, venv: Venv) -> None:
    there(tmp_path / "other" / ".venv", "3.9", checkout=tmp_path / "other")
    (tmp_path / ".venv").symlink_to(tmp_path / "other" / ".venv")
    with pytest.raises(SetupFailed, match=r"\.venv is a link to .*other/\.venv: remove the link"):
        make(tmp_path / ".venv")
    assert venv.made == []


def test_the_lock_has_the_build_tools_with_their_hashes() -> None:
    entry = setup._lines_of(setup.REQUIREMENTS, "setuptools")
    assert entry.startswith("setuptools==")
    assert "--hash=sha256:" in entry
    assert entry.count("==") == 1


def test_what_is_installed_already_is_left_alone() -> None:
    """The second `make setup` takes a second: it compares stamps, and starts nothing."""
    ran: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(setup, "_run", ran.append)
        setup.install_environment()
        setup.install_jars()
        setup.install_redis()
    assert ran == []
