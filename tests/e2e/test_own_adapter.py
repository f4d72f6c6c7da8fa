"""An adapter in a package of one's own: received, booked and proven as any other, with nothing added to the tree."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from load.client import wait_for
from load.embedded import embedded_stack, payhook
from load.samples.sender import Sample, Samples
from tests.e2e.conftest import DECIDED_S, Stack
from tests.unit.test_adding_a_provider import install_the_package

pytestmark = pytest.mark.more(reason="a whole stack whose processes have one package more")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    own = install_the_package(tmp_path_factory.mktemp("package"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(own))
        patch.setenv("PAYHOOK_PROVIDERS__OWN__FAKTURO__TOLERANCE_S", "120")
        with embedded_stack(tmp_path_factory.mktemp("stack")) as data_dir:
            yield Stack(data_dir)


def sample(own: str) -> bytes:
    """The body of the package's own sample."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(own)
        from payhook_fakturo.samples import SAMPLES  # type: ignore[import-not-found]

        assert isinstance(SAMPLES, Samples)
        return SAMPLES.refund(Sample(event="1"))


@pytest.mark.row("A20")
def test_its_webhook_is_received_booked_once_and_proven(stack: Stack, tmp_path: Path) -> None:
    assert (stack.data_dir / "secrets" / "fakturo").read_text().startswith("fk_")
    body = tmp_path / "notice.json"
    body.write_bytes(sample(os.environ["PYTHONPATH"]))
    sent = payhook("send", str(body), "--provider", "fakturo", "--times", "2", "--data", str(stack.data_dir))
    assert (sent.returncode, sent.stdout.count("200 OK")) == (0, 2), sent.stdout + sent.stderr
    key = "fakturo:shop_a1:ntc_1:refund.paid"

    def decisions() -> list[tuple[str, object]]:
        rows = stack.rows(["event_key", "decision", "postings"])
        return [(row["decision"], row["postings"]) for row in rows if row["event_key"] == key]

    assert wait_for(lambda: len(decisions()) == 1, DECIDED_S), decisions()
    [(decision, postings)] = decisions()
    assert decision == "applied"
    assert "provider:fakturo" in json.dumps(postings)
    stack.verify()
