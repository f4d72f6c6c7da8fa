"""``payhook send``: signs a body as its provider would, and posts it."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import httpx2

from cli.place import Place, with_place
from core.clock import SystemClock
from core.errors import PayhookError
from ingest.endpoints import EndpointContexts, SecretFiles
from load.samples import sample_body, sample_names, sign
from providers.port import DEFAULT_ENDPOINT
from providers.registry import build_adapters

POST_TIMEOUT_S = 30.0


class NothingToSendWith(PayhookError):
    pass


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True))
@click.option("--provider", help="The provider of the webhook in FILE: stripe, adyen, …")
@click.option("--sample", metavar="NAME", help="Send a sample instead: stripe:charge.succeeded.")
@click.option("--samples", "list_them", is_flag=True, help="List the samples.")
@click.option("--endpoint", default="", help="Endpoint of the provider, where it has several.")
@click.option("--event-id", help="Id of the event, where the provider sends it beside the body.")
@click.option("--test", "is_test", is_flag=True, help="Post it to the provider's test endpoint.")
@click.option("--times", type=click.IntRange(1, 1000), default=1, show_default=True, help="How many times to post it.")
@with_place
def send(
    place: Place,
    file: Path | None,
    provider: str | None,
    sample: str | None,
    list_them: bool,
    endpoint: str,
    event_id: str | None,
    is_test: bool,
    times: int,
) -> None:
    """Sign the body in FILE ("-": standard input) with the newest secret and post it to the running receiver.

    The endpoint says whether it is test traffic, unless the provider signs it into the body (Stripe). Prints each
    answer; exit 1 if one isn't a 2xx.

    With --sample instead of FILE the event is new each time; --times sends that one again.
    """
    adapters = build_adapters(place.settings.providers)
    if list_them:
        click.echo("\n".join(sample_names(adapters)))
        return
    if sample is not None and file is None and provider is None:
        provider, body = sample_body(sample, adapters, SystemClock().now())
    elif sample is None and file is not None and provider is not None:
        body = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    else:
        raise click.UsageError("name a FILE with --provider, or a --sample; --samples lists them")
    if provider not in adapters:
        raise NothingToSendWith(f"no provider {provider!r}; there are {', '.join(sorted(adapters))}")
    if is_test:
        endpoint = _test_endpoint(place, provider, endpoint)
    secret_files = SecretFiles(
        Path(place.settings.ingest.secrets_dir), SystemClock(), EndpointContexts(place.settings.ingest)
    )
    secret = secret_files.find_secrets(provider, endpoint or None)[0]
    signed = sign(adapters[provider], body, secret, SystemClock().now(), event_id, endpoint or DEFAULT_ENDPOINT)
    url = "/".join(filter(None, [place.endpoints().ingest, "webhooks", provider, endpoint]))
    all_taken = True
    with httpx2.Client(timeout=POST_TIMEOUT_S, trust_env=False) as client:
        for _ in range(times):
            all_taken &= _post(client, url, signed.body, signed.headers)
    sys.exit(0 if all_taken else 1)


def _post(client: httpx2.Client, url: str, body: bytes, headers: dict[str, str]) -> bool:
    try:
        answer = client.post(url, content=body, headers=headers)
    except httpx2.HTTPError as failed:
        raise NothingToSendWith(f"{url} doesn't answer: {failed}") from failed
    replayed = " (a redelivery: nothing new happens)" if "idempotent-replayed" in answer.headers else ""
    click.echo(f"{answer.status_code} {answer.text.strip()}{replayed}")
    return answer.is_success


def _test_endpoint(place: Place, provider: str, named: str) -> str:
    contexts = EndpointContexts(place.settings.ingest)
    names = [named] if named else contexts.list_endpoints(provider)
    tests = [name for name in names if contexts.find_context(provider, name or None).mode == "test"]
    if len(tests) != 1:
        raise NothingToSendWith(
            f"{provider} has {len(tests)} test endpoints{' of that name' if named else ''}: give one of its endpoints "
            'mode = "test" in [ingest.endpoints], or name the one that is meant. Where the provider signs its '
            "live flag, leave --test out: the body says what it is"
        )
    return tests[0]
