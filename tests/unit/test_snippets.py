"""Each snippet of README and docs runs as it stands, with the packages that its page names and no others.

Pages that lead through something have tests of their own: docs/adding-a-provider.md (`test_adding_a_provider`),
docs/alerts.md (`tests.unit.alerts.test_adding`), docs/streams.md (`tests.e2e.test_own_handler` and
`test_foreign_topic`), docs/notifications.md (`tests.unit.notify.test_docs`).
"""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
import time
import tomllib
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import click
import duckdb
import pytest
from deltalake import DeltaTable

from cli.main import main
from core.money import Movement
from processor.streams import load_streams
from stack.servers.redis import ADMIN, redis_server, redis_url
from stack.servers.server import run_server
from stack.settings import Settings
from tests.documented import CHECKOUT, Block, fenced
from tests.only import environment, run_with
from tests.small_ledger import SmallLedger

PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", *sorted((CHECKOUT / "docs").glob("*.md"))]
OTHERS_PROGRAMS = ("helm ", "docker ", "kubectl ")
PLACEHOLDER = re.compile("…")
_COMMAND = re.compile(r"(?:^|[ ;])(?:\.venv/bin/)?payhook +([^|;\n]*)")
_QUOTED = re.compile(r"`payhook ([^`\n]+)`")
RUN_HERE = {
    "docs/api.md": ["shop.py"],
    "docs/sql.md": ["duckdb_question.py", "pandas_question.py", "spark_question.py"],
    "docs/processor.md": ["greeter.py"],
}
RUN_ELSEWHERE = {"docs/adding-a-provider.md", "docs/alerts.md", "docs/notifications.md", "docs/streams.md"}


def blocks_of(language: str) -> list[tuple[str, Block]]:
    """Every block of a language, with its page's name."""
    found = [(page, block) for page in PAGES for block in fenced(page.read_text("utf-8"))]
    return [(str(page.relative_to(CHECKOUT)), block) for page, block in found if block.language == language]


def block(page: str, path: str) -> str:
    [found] = [one.text for name, one in blocks_of("python") if (name, one.path) == (page, path)]
    return found


def pip_list(page: str, before: str) -> list[str]:
    """The packages of the last ``pip install`` that a page names before a block."""
    text = (CHECKOUT / page).read_text("utf-8").partition(f"**`{before}`**")[0]
    named: list[str] = re.findall(r"`pip install ([^`]+)`", text)
    return named[-1].split()


def test_every_python_block_is_run_by_a_test() -> None:
    found: dict[str, list[str]] = {}
    for page, one in blocks_of("python"):
        if page not in RUN_ELSEWHERE:
            found.setdefault(page, []).append(one.path)
    assert found == RUN_HERE


def commands() -> Iterator[tuple[str, str]]:
    """What pages tell to type, and where."""
    for language in ("sh", "console"):
        for page, one in blocks_of(language):
            for line in one.text.replace("\\\n", "").splitlines():
                if not line.strip().startswith(OTHERS_PROGRAMS) or " payhook " in line.partition("-- ")[2]:
                    typed = line.partition("-- ")[2] if line.startswith("kubectl") else line
                    yield from ((f"{page}:{one.line}", words) for words in _COMMAND.findall(typed))
    for path in PAGES:
        text = path.read_text("utf-8")
        for quoted in _QUOTED.finditer(text):
            yield f"{path.relative_to(CHECKOUT)}:{text.count(chr(10), 0, quoted.start()) + 1}", quoted[1]


def unknown_words(words: str) -> str | None:
    """Why the command doesn't take these words; None where it does."""
    context = click.Context(main, info_name="payhook")
    command: click.Command = main
    typed = [word for word in shlex.split(words, comments=True) if not PLACEHOLDER.search(word)]
    while isinstance(command, click.Group):
        if not typed or typed[0].startswith("-"):
            return None
        name = typed.pop(0)
        found = command.get_command(context, name)
        if found is None:
            return f"there is no command {name}"
        context, command = click.Context(found, info_name=name, parent=context), found
    # An option at the end of a quoted command may stand for itself and its value.
    options = [one for one in command.params if isinstance(one, click.Option) and not one.is_flag]
    if typed and any(typed[-1] in one.opts for one in options):
        typed.pop()
    try:
        command.make_parser(context).parse_args(typed)
    except click.UsageError as wrong:
        return wrong.format_message()
    return None


@pytest.mark.row("G8")
def test_every_command_on_a_page_is_one_that_there_is() -> None:
    listed = list(commands())
    assert len(listed) > 100
    assert [(where, words, problem) for where, words in listed if (problem := unknown_words(words))] == []


@pytest.mark.parametrize("words", ["ledger reprocess x", "dlq list --sideways", "dlq show"])
def test_a_command_that_is_gone_would_be_found(words: str) -> None:
    """A missing argument isn't looked for: pages quote commands in part."""
    assert (unknown_words(words) is None) == (words == "dlq show")


def test_every_test_that_a_page_names_is_there() -> None:
    named = {
        (str(page.relative_to(CHECKOUT)), path)
        for page in PAGES
        for path in re.findall(r"\btests/[\w/]+\.py\b", page.read_text("utf-8"))
        if "fakturo" not in path
    }
    assert {(page, path) for page, path in named if not (CHECKOUT / path).is_file()} == set()


def test_every_example_of_settings_is_taken(tmp_path: Path) -> None:
    taken = 0
    for page, one in blocks_of("toml"):
        tables = tomllib.loads(one.text)
        if one.path.endswith("streams.toml"):
            (tmp_path / "streams.toml").write_text(one.text)
            assert load_streams(str(tmp_path / "streams.toml")), page
        elif one.path in ("", "payhook.toml"):
            Settings(**tables)
        else:
            assert page in RUN_ELSEWHERE, f"{page}: nothing reads {one.path}"
        taken += 1
    assert taken > 10
    assert all(json.loads(one.text) for _, one in blocks_of("json"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a ledger, and the first question of the page beside its lake."""
    ledger = SmallLedger(tmp_path_factory.mktemp("snippets") / "data")
    ledger.add(Movement.CAPTURE, 1_250, "EUR", merchant="m-1")
    ledger.add(Movement.REFUND, 250, "EUR", merchant="m-1")
    ledger.add(Movement.CAPTURE, 700, "JPY", merchant="m-2")
    ledger.commit()
    question = next(one.text for page, one in blocks_of("sql") if page == "docs/sql.md")
    (ledger.data / "question.sql").write_text(question)
    return ledger.data


def answers(data: Path, path: str, **variables: str) -> str:
    """What a page's snippet prints in an environment of what the page names."""
    packages = environment(data.with_name(f"{path}-packages"), *pip_list("docs/sql.md", path))
    (data / path).write_text(block("docs/sql.md", path))
    done = run_with(packages, words=[path], cwd=data, **variables)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


OWED = re.compile(r"m-1\W+EUR\W+1000\b.*m-2\W+JPY\W+700\b", re.DOTALL)


@pytest.mark.parametrize("path", ["duckdb_question.py", "pandas_question.py"])
def test_a_question_is_answered_with_what_the_page_names(data: Path, path: str) -> None:
    assert OWED.search(answers(data, path))


@pytest.mark.more(reason="starts a Spark of its own")
def test_spark_answers_with_what_the_page_names(data: Path) -> None:
    assert OWED.search(answers(data, "spark_question.py", PAYHOOK=str(CHECKOUT)))


def test_every_query_on_a_page_is_one_of_the_ledgers_tables(data: Path) -> None:
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        for name, path in {"postings": "lake/postings", "journal": "lake/journal/ledger"}.items():
            database.register(name, DeltaTable(str(data / path)).to_pyarrow_dataset())
        for _, one in blocks_of("sql"):
            database.sql(one.text).fetchall()


def test_the_handler_of_the_processors_page_is_one(tmp_path: Path) -> None:
    (tmp_path / "greeter.py").write_text(block("docs/processor.md", "greeter.py"))
    words = ["-c", "from greeter import Greeter; print(Greeter.pure, Greeter()(None))"]
    done = run_with(environment(tmp_path / "packages", "orjson"), tmp_path, CHECKOUT, words=words, cwd=tmp_path)
    assert done.stdout.startswith("True Applied("), done.stderr


def test_the_application_of_ones_own_runs_on_redis_with_what_the_page_names(tmp_path: Path) -> None:
    packages = environment(tmp_path / "packages", *pip_list("docs/api.md", "shop.py"))
    (tmp_path / "shop.py").write_text(block("docs/api.md", "shop.py"))
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = held.getsockname()[1]
    with run_server(redis_server(tmp_path / "redis", tmp_path / "redis.log")):
        words = ["-m", "uvicorn", "--factory", "shop:from_environment", "--port", str(port), "--log-level", "warning"]
        shop = subprocess.Popen(
            [sys.executable, "-S", *words],
            cwd=tmp_path,
            env={"PYTHONPATH": f"{packages}:{CHECKOUT}", "REDIS_URL": redis_url(tmp_path / "redis", ADMIN)},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            first, copy = (refund(shop, port) for _ in range(2))
        finally:
            shop.terminate()
            said = shop.communicate(timeout=30)[1]
    assert (first[0], copy[0]) == (201, 201), said
    assert first[1] == copy[1] and first[2] is None and copy[2] == "true", said


def refund(shop: subprocess.Popen[str], port: int) -> tuple[int, bytes, str | None]:
    """Status, body and the mark of a repeated answer."""
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/refunds", b"", {"Idempotency-Key": '"k-1"'}, method="POST"
    )
    until = time.monotonic() + 60
    while True:
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read(), answer.headers["Idempotent-Replayed"]
        except urllib.error.HTTPError as refused:
            return refused.code, refused.read(), None
        except urllib.error.URLError:
            assert shop.poll() is None and time.monotonic() < until
            time.sleep(0.1)
