"""``payhook send``: signs a body as its provider would, and posts it."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import httpx

from cli.place import Place, with_place
from core.clock import SystemClock
from core.errors import PayhookError
from providers.registry import build_adapters

POST_TIMEOUT_S = 30.0


class NothingToSendWith(PayhookError):
    """There is no such provider, or no secret of it."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option("--provider", required=True, help="Whose webhook it is: stripe, adyen, standardwebhooks.")
@click.option("--endpoint", default="", help="Endpoint of the provider, where it has several.")
@click.option("--event-id", help="Id of the event, where the provider sends it beside the body.")
@click.option("--times", type=click.IntRange(1, 1000), default=1, show_default=True, help="Post it that often.")
@with_place
def send(place: Place, file: Path, provider: str, endpoint: str, event_id: str | None, times: int) -> None:
    """Sign the body in FILE ("-": standard input) with the newest secret and post it to the running receiver.

    Prints each answer; exit 1 if one isn't a 2xx.
    """
    adapters = build_adapters(place.settings.providers)
    if provider not in adapters:
        raise NothingToSendWith(f"no provider {provider!r}; there are {', '.join(sorted(adapters))}")
    body = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    name = f"{provider}.{endpoint}" if endpoint else provider
    signed = adapters[provider].sign(body, _newest_secret(place, name), SystemClock().now(), event_id)
    url = "/".join(filter(None, [place.endpoints().ingest, "webhooks", provider, endpoint]))
    all_taken = True
    with httpx.Client(timeout=POST_TIMEOUT_S, trust_env=False) as client:
        for _ in range(times):
            all_taken &= _post(client, url, signed.body, signed.headers)
    sys.exit(0 if all_taken else 1)


def _post(client: httpx.Client, url: str, body: bytes, headers: dict[str, str]) -> bool:
    try:
        answer = client.post(url, content=body, headers=headers)
    except httpx.HTTPError as failed:
        raise NothingToSendWith(f"{url} doesn't answer: {failed}") from failed
    replayed = " (a redelivery: nothing new happens)" if "idempotent-replayed" in answer.headers else ""
    click.echo(f"{answer.status_code} {answer.text.strip()}{replayed}")
    return answer.is_success


def _newest_secret(place: Place, name: str) -> str:
    path = Path(place.settings.ingest.secrets_dir) / name
    try:
        lines = path.read_text("utf-8").split()
    except OSError:
        lines = []
    if not lines:
        raise NothingToSendWith(f"{path} holds no secret; `payhook up` makes one for each provider")
    return lines[0]
