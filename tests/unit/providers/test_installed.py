"""Adapters of packages of one's own: found by their entry points, and named where they can't be taken."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import providers.installed as installed_module
from core.errors import SettingError
from ledger.handler import handler_version
from providers import ProvidersSettings, build_adapters
from providers.installed import AdapterTwice, AdapterUnusable

ADAPTER = """
from providers.stripe import StripeAdapter

class Adapter(StripeAdapter):
    name = "{name}"
"""


def install(folder: Path, package: str, entry: str, code: str, version: str = "1.0") -> Path:
    """A package in a folder, as an installer leaves it there."""
    (folder / f"{package}.py").write_text(code)
    metadata = folder / f"{package}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (metadata / "entry_points.txt").write_text(f"[payhook.providers]\n{entry}\n")
    return folder


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages in which this process looks first."""
    monkeypatch.syspath_prepend(str(tmp_path))
    installed_module._read_entry_points.cache_clear()
    known = set(sys.modules)
    yield tmp_path
    installed_module._read_entry_points.cache_clear()
    for module in set(sys.modules) - known:
        if (getattr(sys.modules[module], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[module]


def error() -> str:
    """The error with which adapters are refused; it can travel between processes."""
    with pytest.raises((AdapterUnusable, AdapterTwice)) as refused:
        build_adapters(ProvidersSettings())
    return str(pickle.loads(pickle.dumps(refused.value)))


@pytest.mark.row("A20")
def test_an_adapter_of_a_package_is_beside_payhooks_own(folder: Path) -> None:
    before = build_adapters(ProvidersSettings()).keys()
    installed_module._read_entry_points.cache_clear()
    install(folder, "own", "acme = own:Adapter", ADAPTER.format(name="acme"))
    assert build_adapters(ProvidersSettings()).keys() == before | {"acme"}


def test_a_package_in_two_places_is_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An archive for executors has the folders of PYTHONPATH, and what is installed."""
    install(folder, "own", "acme = own:Adapter", ADAPTER.format(name="acme"))
    (folder / "other").mkdir()
    monkeypatch.syspath_prepend(
        str(install(folder / "other", "own", "acme = own:Adapter", ADAPTER.format(name="acme")))
    )
    assert "acme" in build_adapters(ProvidersSettings())


def test_its_code_is_a_part_of_the_handlers_version(folder: Path) -> None:
    install(folder, "own", "acme = own:Adapter", ADAPTER.format(name="acme"))
    before = handler_version(ProvidersSettings())
    assert before == handler_version(ProvidersSettings())
    (folder / "own.py").write_text(ADAPTER.format(name="acme") + "    accounts_in_entities = False\n")
    assert handler_version(ProvidersSettings()) != before


@pytest.mark.parametrize(
    ("entry", "code", "says"),
    [
        ("acme = own:Adapter", "import nothing_of_that_name", "ModuleNotFoundError: No module named 'nothing_of_that"),
        ("acme = own:Adapter", "x = 1 / 0", "ZeroDivisionError: division by zero"),
        ("acme = own:Other", ADAPTER.format(name="acme"), "has no attribute 'Other'"),
        ("acme = own:Adapter", "def Adapter(settings): raise KeyError('no')", "KeyError: 'no'"),
        ("acme = own:Adapter", "def Adapter(settings): return 7", "what it makes isn't an adapter"),
        ("acme = own:Adapter", ADAPTER.format(name="acmepay"), "the adapter calls itself 'acmepay'"),
        ("acme-pay = own:Adapter", ADAPTER.format(name="acme-pay"), "2 to 32 small letters and digits"),
    ],
)
def test_one_that_cant_be_used_is_named_with_its_package(folder: Path, entry: str, code: str, says: str) -> None:
    install(folder, "own", entry, code)
    said = error()
    assert f"{entry.partition(' = ')[2]} of own 1.0 (payhook.providers) can't be used: " in said
    assert says in said
    assert said.endswith("Mend or uninstall that package")


def test_a_name_that_payhook_has_is_refused(folder: Path) -> None:
    install(folder, "own", "stripe = own:Adapter", ADAPTER.format(name="stripe"))
    assert "two adapters are called stripe: payhook's own, and own:Adapter of own 1.0" in error()


def test_a_name_that_two_packages_have_is_refused(folder: Path) -> None:
    for package in ("mine", "yours"):
        install(folder, package, f"acme = {package}:Adapter", ADAPTER.format(name="acme"))
    said = error()
    assert "two adapters are called acme: mine:Adapter of mine 1.0" in said
    assert "and yours:Adapter of yours 1.0" in said


def test_settings_of_an_adapter_that_isnt_installed_are_refused() -> None:
    with pytest.raises(SettingError, match=r"providers\.own\.a1: no adapter of that name is installed"):
        build_adapters(ProvidersSettings(own={"a1": {}}))
