"""The path fixes mode, tenant and zone; a signed live flag routes, and tenants' keys never meet."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core.clock import ManualClock
from core.errors import SettingError
from core.event import Dedupe as Flag
from core.event import Event, Headers, Mode, from_record, poison_event, to_headers
from core.routing import dlq_topic, mode_of, of_tenant, stream_of, topics_of
from ingest.claims import ClaimKey
from ingest.endpoints import (
    LOOK_AGAIN_S,
    EndpointContext,
    EndpointContexts,
    SecretFiles,
    SecretsMissing,
    SecretsShared,
    UnknownEndpoint,
    check_endpoints,
)
from ingest.settings import IngestSettings
from providers.port import ModeMismatch
from tests.events import make_event
from tests.unit.ingest.app_under_test import NOW, Bench, ListPublisher

PROVIDERS = ("stripe", "adyen")


def settings(test_traffic: bool = True, **given: Any) -> IngestSettings:
    return IngestSettings(test_traffic=test_traffic, **given)


def event(mode: Mode = "live") -> Event:
    fact = {"fact_key": "stripe:ch_1:capture", "fact_sha256": "1" * 64}
    return make_event("evt_1", "charge.succeeded", entity_key="stripe::pi_1", account="", mode=mode, **fact)


def keys_of(one: Event) -> tuple[str, str, str | None]:
    return one.event_key, one.entity_key, one.fact_key


class TestThePathFixesTheContext:
    def test_without_settings_every_path_is_live_without_tenant_and_zone(self):
        contexts = EndpointContexts(IngestSettings())
        assert (
            contexts.find_context("stripe", None)
            == contexts.find_context("stripe", "eu")
            == EndpointContext("live", None, None)
        )

    def test_a_listed_endpoint_has_its_own_and_what_it_leaves_out_is_the_receivers(self):
        contexts = EndpointContexts(
            settings(endpoints={"stripe/eu": {"tenant": "shop-a", "zone": "eu-1"}, "adyen": {}})
        )
        assert contexts.find_context("stripe", "eu") == EndpointContext("live", "shop-a", "eu-1")
        assert contexts.find_context("adyen", None) == EndpointContext("live")

    def test_an_endpoints_mode_is_its_own_and_the_others_keep_the_receivers(self):
        contexts = EndpointContexts(settings(mode="test", endpoints={"adyen/live": {"mode": "live"}}))
        assert contexts.find_context("adyen", "live").mode == "live"
        assert contexts.find_context("adyen", None).mode == "test"

    def test_an_unlisted_path_is_its_providers_own_so_that_no_event_takes_effect_there_again(self):
        contexts = EndpointContexts(
            settings(endpoints={"stripe": {"tenant": "shop-a"}, "stripe/eu": {"tenant": "shop-b"}})
        )
        assert (
            contexts.find_context("stripe", "elsewhere")
            == contexts.find_context("stripe", None)
            == EndpointContext("live", "shop-a")
        )
        assert contexts.find_context("stripe", "default") == contexts.find_context("stripe", None)

    def test_only_listed_paths_are_answered_where_that_is_set(self):
        contexts = EndpointContexts(settings(known_endpoints_only=True, endpoints={"stripe/eu": {}}))
        assert contexts.find_context("stripe", "eu") == EndpointContext("live")
        for provider, endpoint in (("stripe", None), ("stripe", "us"), ("adyen", None)):
            with pytest.raises(UnknownEndpoint):
                contexts.find_context(provider, endpoint)


class TestRouting:
    def test_a_signed_test_flag_at_a_live_endpoint_routes_to_test(self):
        routed = EndpointContexts(settings()).route_event(event("test"), EndpointContext("live"))
        assert topics_of(routed.mode).events == "payments.events.test"

    def test_with_test_traffic_off_a_test_event_is_left_out(self):
        contexts = EndpointContexts(IngestSettings())
        assert contexts.route_event(event("test"), EndpointContext("live")).mode == "test"
        assert [contexts.may_take(event(mode)) for mode in ("live", "test")] == [True, False]
        assert EndpointContexts(settings()).may_take(event("test"))

    def test_a_live_event_at_a_test_endpoint_is_refused(self):
        with pytest.raises(ModeMismatch) as refused:
            EndpointContexts(settings()).route_event(event("live"), EndpointContext("test"))
        assert (refused.value.endpoint, refused.value.reported) == ("test", "live")

    @pytest.mark.parametrize("mode", ["live", "test"])
    def test_an_event_of_the_endpoints_mode_is_taken(self, mode: Mode):
        assert EndpointContexts(settings()).route_event(event(mode), EndpointContext(mode)).mode == mode

    def test_without_tenant_and_zone_the_event_stays_exactly_as_it_is(self):
        one = event()
        assert EndpointContexts(settings()).route_event(one, EndpointContext("live")) is one

    def test_a_zone_is_noted_and_changes_no_key(self):
        routed = EndpointContexts(settings()).route_event(event(), EndpointContext("live", None, "eu-1"))
        assert (routed.zone, routed.tenant, keys_of(routed)) == ("eu-1", None, keys_of(event()))

    def test_the_modes_that_are_taken(self):
        assert IngestSettings().taken_modes == ("live",)
        assert settings().taken_modes == ("live", "test")


class TestTenants:
    def test_every_key_of_two_tenants_differs(self):
        contexts = EndpointContexts(settings())
        of = [contexts.route_event(event(), EndpointContext("live", tenant)) for tenant in (None, "shop-a", "shop-b")]
        for keys in zip(*map(keys_of, of), strict=True):
            assert len(set(keys)) == 3
        assert keys_of(of[1]) == (
            "shop-a~stripe:evt_1:charge.succeeded",
            "shop-a~stripe::pi_1",
            "shop-a~stripe:ch_1:capture",
        )

    def test_an_event_that_moves_no_money_has_no_fact_for_a_tenant_either(self):
        routed = EndpointContexts(settings()).route_event(
            replace(event(), fact_key=None), EndpointContext("live", "shop-a")
        )
        assert routed.fact_key is None

    def test_poison_of_two_tenants_is_two_items(self):
        contexts = EndpointContexts(settings())
        poison = poison_event("stripe", b"\xff", "live", "not JSON")
        keys = {
            contexts.route_event(poison, EndpointContext("live", tenant)).event_key for tenant in ("shop-a", "shop-b")
        }
        assert len(keys) == 2

    @given(
        st.lists(
            st.tuples(st.none() | st.from_regex(r"\A[a-z0-9]{1,3}\Z"), st.from_regex(r"\A[a-z]{1,3}:[a-z:~]{0,3}\Z")),
            min_size=2,
            max_size=2,
            unique=True,
        )
    )
    def test_no_key_of_one_tenant_is_another_ones(self, pairs: list[tuple[str | None, str]]):
        one, other = (of_tenant(tenant, key) for tenant, key in pairs)
        assert one != other

    def test_tenant_and_zone_travel_through_kafka(self):
        routed = EndpointContexts(settings()).route_event(event(), EndpointContext("live", "shop-a", "eu-1"))
        received = from_record(routed.body, to_headers(routed, NOW, Flag.CLAIMED)).event
        assert (received.tenant, received.zone, keys_of(received)) == ("shop-a", "eu-1", keys_of(routed))

    def test_the_source_of_a_tenants_event_is_its_own(self):
        """CloudEvents: source and id together name one event."""
        contexts = EndpointContexts(settings())
        sources = {
            dict(to_headers(contexts.route_event(event(), EndpointContext("live", tenant)), NOW, Flag.CLAIMED))[
                "ce_source"
            ]
            for tenant in (None, "shop-a", "shop-b")
        }
        assert len(sources) == 3


def test_a_test_events_claim_is_never_a_live_ones():
    live = ClaimKey.for_event("stripe:evt_1:t", "00" * 32)
    assert ClaimKey.for_event("stripe:evt_1:t", "00" * 32, "live") == live
    test = ClaimKey.for_event("stripe:evt_1:t", "00" * 32, "test")
    assert test.name != live.name
    assert test.content8 == live.content8
    assert test.name != ClaimKey.for_event(of_tenant("test", "stripe:evt_1:t"), "00" * 32).name


def test_names_of_topics_and_streams():
    assert topics_of("live").events == "payments.events"
    assert {*vars_of("test")} == {"payments.events.test", "payments.control.test", "payments.receipts.test"}
    assert (stream_of("ledger", "live"), stream_of("ledger", "test")) == ("ledger", "ledger-test")
    assert [mode_of(stream_of("ledger", mode)) for mode in ("live", "test")] == ["live", "test"]
    assert dlq_topic("ledger-test") == "dlq.ledger-test"


def vars_of(mode: Mode) -> tuple[str, str, str]:
    names = topics_of(mode)
    return names.events, names.control, names.receipts


class TestSettings:
    @pytest.mark.parametrize(
        "name", ["", "/eu", "stripe/", "Stripe", "stripe/eu/1", "stripe/e u", "stripe/é", "stripe/default", "x" * 40]
    )
    def test_a_name_that_no_path_has_is_refused(self, name: str):
        with pytest.raises(ValidationError, match="is no endpoint"):
            settings(endpoints={name: {}})

    @pytest.mark.parametrize("tenant", ["Shop", "shop~a", "shop:a", "-a", "a-", "shop a", "é", "a" * 33, "a\n"])
    def test_a_tenant_that_could_be_taken_for_something_else_is_refused(self, tenant: str):
        with pytest.raises(ValidationError, match="endpoints"):
            settings(endpoints={"stripe": {"tenant": tenant}})

    def test_an_endpoint_says_nothing_else(self):
        with pytest.raises(ValidationError, match="Extra inputs"):
            settings(endpoints={"stripe": {"tenants": "a"}})

    @pytest.mark.parametrize("given", [{"mode": "test"}, {"endpoints": {"adyen/t": {"mode": "test"}}}])
    def test_a_test_endpoint_that_would_refuse_everything_is_refused(self, given: dict[str, Any]):
        with pytest.raises(ValidationError, match=r"mode is test.*set test_traffic"):
            settings(test_traffic=False, **given)

    def test_known_endpoints_only_without_any_is_refused(self):
        with pytest.raises(ValidationError, match="refuses every request"):
            settings(known_endpoints_only=True)


ONE, TWO, THREE = (f"whsec_{name}_0123456789abcdef" for name in ("one", "two", "three"))


class TestSecretsAreApart:
    def check(self, folder: Path, given: IngestSettings, **files: str) -> None:
        for name, text in files.items():
            (folder / name.replace("__", ".")).write_text(text)
        check_endpoints(given, PROVIDERS, SecretFiles(folder, ManualClock(NOW), EndpointContexts(given)))

    @pytest.mark.parametrize("endpoint", [{"tenant": "shop-a"}, {"mode": "test"}])
    def test_an_endpoint_of_another_tenant_or_mode_needs_a_secret_of_its_own(self, tmp_path: Path, endpoint: Any):
        with pytest.raises(SecretsShared, match=r"stripe: it shares a secret with stripe\.eu,"):
            self.check(tmp_path, settings(endpoints={"stripe/eu": endpoint}), stripe=ONE, stripe__eu=ONE)

    def test_an_old_secret_in_both_files_is_found(self, tmp_path: Path):
        with pytest.raises(SecretsShared, match="shares a secret"):
            self.check(
                tmp_path,
                settings(endpoints={"adyen/t": {"mode": "test"}}),
                adyen=f"{ONE}\n{TWO}",
                adyen__t=f"{THREE}\n{TWO}",
            )

    def test_secrets_that_differ_are_taken(self, tmp_path: Path):
        given = settings(endpoints={"stripe/eu": {"tenant": "shop-a"}, "stripe/us": {"tenant": "shop-b"}})
        self.check(tmp_path, given, stripe=ONE, stripe__eu=TWO, stripe__us=THREE)

    def test_two_endpoints_of_one_tenant_may_share_one(self, tmp_path: Path):
        self.check(tmp_path, settings(endpoints={"stripe/eu": {"zone": "eu"}}), stripe=ONE, stripe__eu=ONE)

    UNLISTED: ClassVar[dict[str, str]] = {"stripe": TWO, "stripe__eu": ONE, "stripe__us": ONE}

    def test_an_endpoint_that_is_answered_without_being_listed_needs_one_too(self, tmp_path: Path):
        given = settings(endpoints={"stripe/eu": {"tenant": "shop-a"}})
        with pytest.raises(SecretsShared, match=r"stripe\.eu: it shares a secret with stripe\.us,"):
            self.check(tmp_path, given, **self.UNLISTED)

    def test_a_file_of_an_endpoint_that_is_not_answered_opens_nothing(self, tmp_path: Path):
        known_only = settings(known_endpoints_only=True, endpoints={"stripe/eu": {"tenant": "shop-a"}})
        self.check(tmp_path, known_only, **self.UNLISTED)
        (tmp_path / "stripe.us").unlink()
        for no_endpoints in ("stripe.eu.old", "stripe-api.eu"):
            (tmp_path / no_endpoints).write_text(ONE)
        self.check(tmp_path, settings(endpoints={"stripe/eu": {"tenant": "shop-a"}}))

    def test_a_file_that_appears_opens_nothing_before_it_was_compared_with_all_others(self, tmp_path: Path):
        given, clock = settings(endpoints={"stripe/eu": {"tenant": "shop-a"}}), ManualClock(NOW)
        secrets = SecretFiles(tmp_path, clock, EndpointContexts(given))
        (tmp_path / "stripe.eu").write_text(ONE)
        assert secrets.find_secrets("stripe", "eu") == (ONE,)
        (tmp_path / "stripe.us").write_text(ONE)
        clock.advance(LOOK_AGAIN_S / 2)
        with pytest.raises(SecretsMissing):
            secrets.find_secrets("stripe", "us")
        clock.advance(LOOK_AGAIN_S)
        for endpoint in ("us", "eu"):
            with pytest.raises(SecretsShared):
                secrets.find_secrets("stripe", endpoint)

    def test_an_endpoint_without_a_file_opens_nothing(self, tmp_path: Path):
        self.check(tmp_path, settings(endpoints={"stripe/eu": {"tenant": "shop-a"}}), stripe__eu=TWO)

    def test_an_endpoint_of_a_provider_that_there_is_not_is_named(self, tmp_path: Path):
        with pytest.raises(SettingError, match=r"ingest\.endpoints\.strip/eu: no such provider; known are adyen"):
            self.check(tmp_path, settings(endpoints={"strip/eu": {}}))


class TopicPublisher(ListPublisher):
    """Remembers which topic each thing went to."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: list[str] = []
        self.receipt_topics: list[str] = []

    async def publish(self, topic: str, key: bytes, value: bytes, headers: Headers) -> bool:
        self.topics.append(topic)
        return await super().publish(topic, key, value, headers)

    def publish_unawaited(self, topic: str, value: bytes) -> None:
        self.receipt_topics.append(topic)
        super().publish_unawaited(topic, value)


class TestAtTheReceiver:
    """One Stripe event for every path, so that only the path and its secret make the difference."""

    @pytest.fixture
    def bench(self, tmp_path: Path) -> Bench:
        made = Bench(
            tmp_path,
            test_traffic=True,
            endpoints={
                "stripe/a": {"tenant": "shop-a"},
                "stripe/b": {"tenant": "shop-b"},
                "stripe/t": {"mode": "test"},
            },
        )
        made.publisher = TopicPublisher()
        return made

    async def post(self, bench: Bench, endpoint: str, livemode: bool = True) -> tuple[int, str | None]:
        body, headers = bench.stripe(endpoint=f"stripe{endpoint}", livemode=livemode)
        answer = await bench.post(body, headers, f"/webhooks/stripe{endpoint}")
        return answer.status_code, answer.headers.get("idempotent-replayed")

    def test_test_traffic_goes_to_its_own_topics_with_its_receipts(self, bench: Bench):
        async def scene() -> None:
            assert await self.post(bench, "", livemode=False) == (200, None)
            assert await self.post(bench, "", livemode=True) == (200, None)
            assert await self.post(bench, "", livemode=False) == (200, "true")

        asyncio.run(scene())
        assert isinstance(bench.publisher, TopicPublisher)
        assert bench.publisher.topics == ["payments.events.test", "payments.events"]
        assert set(bench.publisher.receipt_topics) == {"payments.receipts.test", "payments.receipts"}
        assert [headers["mode"] for *_, headers in bench.publisher.records] == ["test", "live"]

    def test_live_at_a_test_endpoint_is_422_and_publishes_nothing(self, bench: Bench):
        assert asyncio.run(self.post(bench, "/t", livemode=True)) == (422, None)
        assert bench.publisher.records == []

    def test_one_id_of_two_tenants_is_two_events_each_taken_once(self, bench: Bench):
        async def scene() -> list[tuple[int, str | None]]:
            return [await self.post(bench, endpoint) for endpoint in ("/a", "/b", "", "/a", "/b", "")]

        assert asyncio.run(scene()) == [(200, None)] * 3 + [(200, "true")] * 3
        kept = [(key.decode().partition("~")[0], headers.get("tenant")) for key, _, headers in bench.publisher.records]
        assert kept == [("shop-a", "shop-a"), ("shop-b", "shop-b"), ("stripe:acct_1:pi_1", None)]

    def test_poison_keeps_its_path_s_mode_and_tenant(self, bench: Bench):
        for endpoint in ("a", "t"):
            body, headers = bench.signed(f"stripe/{endpoint}", b'{"id": ')
            assert asyncio.run(bench.post(body, headers, f"/webhooks/stripe/{endpoint}")).status_code == 200
        kept = [(one["mode"], one.get("tenant")) for *_, one in bench.publisher.records]
        assert kept == [("live", "shop-a"), ("test", None)]

    def test_an_unlisted_path_is_404_where_only_listed_ones_count(self, tmp_path: Path):
        bench = Bench(tmp_path, known_endpoints_only=True, endpoints={"stripe/eu": {}})
        bench.secrets["stripe/us"] = bench.secrets["stripe/eu"]
        assert asyncio.run(self.post(bench, "/eu")) == (200, None)
        assert asyncio.run(self.post(bench, "")) == (404, None)
        assert asyncio.run(self.post(bench, "/us")) == (404, None)
