"""docs/adding-a-provider.md, followed word for word in a copy of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.documented import Block, apply_block, blocks

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "adding-a-provider.md"
COPIED = [
    *("core", "providers", "ingest", "load", "pyproject.toml", "tests/contract", "tests/unit/ingest"),
    *("ledger/accounts.py", "tests/unit/providers/samples"),
    *(f"tests/unit/providers/{name}.py" for name in ("conftest", "shapes", "test_sample_tables")),
    *(str(path.relative_to(CHECKOUT)) for path in CHECKOUT.glob("tests/*.py")),
]
SECONDS_MAX = 120
PACKAGE = "payhook-fakturo"
"""The page's package of one's own."""
SUITE = [f"tests/contract/{name}.py" for name in ("test_adapters", "test_adapters_fuzzed", "test_adapters_received")]


def copy(folder: Path) -> Path:
    """What the page's steps touch and need."""
    for name in COPIED:
        source, target = CHECKOUT / name, folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    # Its fixtures are of tables; no adapter's test asks for one.
    (folder / "tests" / "contract" / "conftest.py").unlink()
    return folder


def run(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
        check=False,
    )


def install_the_package(folder: Path) -> Path:
    """The page's package of one's own, built and installed into a folder as the page says."""
    every_block = list(blocks(PAGE.read_text("utf-8")))
    code = folder / PACKAGE / "payhook_fakturo"
    code.mkdir(parents=True)
    (code / "__init__.py").touch()
    for file, path in (("adapter", "providers/fakturo.py"), ("samples", "load/samples/fakturo.py")):
        (code / f"{file}.py").write_text("".join(block.text for block in every_block if block.path == path), "utf-8")
    for block in every_block:
        if block.path.startswith(PACKAGE):
            apply_block(block, folder)
    words = ["--no-deps", "--no-build-isolation", "--no-index", "--quiet", "--target", str(folder / "own")]
    done = run(folder, "pip", "install", *words, f"./{PACKAGE}")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "own"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install_the_package(tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="module")
def page() -> list[Block]:
    """The blocks that go into the repository."""
    return [block for block in blocks(PAGE.read_text("utf-8")) if not block.path.startswith(PACKAGE)]


@pytest.fixture(scope="module")
def followed(page: list[Block], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy in which everything was done that the page says."""
    folder = copy(tmp_path_factory.mktemp("followed"))
    for block in page:
        apply_block(block, folder)
    return folder


def test_the_page_leads_through_every_file(page: list[Block]) -> None:
    assert list(dict.fromkeys(block.path for block in page)) == [
        "providers/fakturo.py",
        "providers/registry.py",
        "load/samples/fakturo.py",
        "tests/unit/providers/samples/fakturo.py",
        "providers/tilgo.py",
        "load/samples/tilgo.py",
    ]


def test_what_the_page_names_is_there() -> None:
    named = re.findall(r"`((?:providers|tests|load|core|docs)/[\w/.-]+\.(?:py|md))`", PAGE.read_text("utf-8"))
    missing = {name for name in named if not re.search("fakturo|tilgo", name) and not (CHECKOUT / name).is_file()}
    assert missing == set()


@pytest.mark.more(reason="it runs the suite again, in a copy of the repository")
@pytest.mark.parametrize("name", ["fakturo", "tilgo"])
def test_the_pages_adapters_pass_the_suite_the_receiver_and_their_own_tests(followed: Path, name: str) -> None:
    passes(run(followed, "pytest", "-q", "-k", name, *SUITE, "tests/unit/providers/test_sample_tables.py"))


@pytest.mark.more(reason="it runs the suite again, in a copy of the repository")
def test_the_package_passes_the_suite_with_nothing_added_to_the_repository(installed: Path) -> None:
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-k", "fakturo", *SUITE]
    passes(run(CHECKOUT, "pytest", *words, PYTHONPATH=str(installed)))


def test_the_packages_setting_counts_and_a_wrong_one_is_named(installed: Path) -> None:
    shows = "from stack.settings import load_settings; from providers import build_adapters; import sys; "
    shows += "sys.stdout.write(str(build_adapters(load_settings().providers)['fakturo'].tolerance_s))"
    for value, says in (("60", "60"), ("0", "providers.own.fakturo.tolerance_s: Input should be greater than 0")):
        variables = {"PYTHONPATH": str(installed), "PAYHOOK_PROVIDERS__OWN__FAKTURO__TOLERANCE_S": value}
        done = subprocess.run(
            [sys.executable, "-c", shows],
            cwd=CHECKOUT,
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert says in done.stdout + done.stderr


def passes(done: subprocess.CompletedProcess[str]) -> None:
    """The suite ran, for the one provider, and passed."""
    assert done.returncode == 0, done.stdout[-4_000:] + done.stderr[-1_000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) > 50
    assert "skipped" not in done.stdout


def test_nothing_else_of_the_repository_is_touched(page: list[Block]) -> None:
    changed = {block.path for block in page if block.language == "diff"}
    assert changed == {"providers/registry.py"}


def test_the_pages_code_is_as_the_repositorys(page: list[Block], followed: Path) -> None:
    files = sorted({block.path for block in page})
    for words in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]):
        done = run(followed, *words, *files)
        assert done.returncode == 0, done.stdout + done.stderr
