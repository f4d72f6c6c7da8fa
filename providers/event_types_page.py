"""The page docs/event-types.md: what each provider's event types mean. ``python -m providers.event_types_page``.

It is made from the adapters' tables, so it can't say anything else than what they do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from providers import ProvidersSettings, build_adapters
from providers.event_types import EventTypes
from providers.stripe_types import THIN

TITLES = {
    "adyen": "Adyen, standard webhooks",
    "adyenplatform": "Adyen, platform webhooks",
    "braintree": "Braintree",
    "checkout": "Checkout.com",
    "gocardless": "GoCardless",
    "mollie": "Mollie, next-gen webhooks",
    "mollieclassic": "Mollie, classic webhooks",
    "paddle": "Paddle",
    "paypal": "PayPal",
    "razorpay": "Razorpay",
    "square": "Square",
    "stripe": "Stripe",
}
HEAD = """\
# Event types

<!-- Written by `make docs`. Don't edit. -->

What payhook does with each event type that a provider lists. **Subscribe** to the types that are read for money:
such an event books, takes back, or says that nothing moved. Subscribe to those that a person decides only if somebody
books them by hand ([finance.md](finance.md#booking-by-hand)). A type that moves nothing does no harm.

A type that isn't on this page is **unknown**: its events are kept and counted, and book nothing. So is an event of a
type that is read for money, where a value that decides about its money is in no table, such as a new status.

Standard Webhooks senders are anybody: `providers.standardwebhooks.money` says which of their types are read for
money, and `providers.standardwebhooks.moves_nothing` which are known to move nothing ([settings.md](settings.md)).
"""


def spell_types(types: Iterable[str]) -> str:
    return ", ".join(f"`{event_type}`" for event_type in sorted(types)) or "none"


def write_section(title: str, types: EventTypes) -> Iterator[str]:
    yield f"\n## {title}\n"
    yield f"- **Read for money**: {spell_types(types.books)}"
    yield f"- **A person decides**: {spell_types(types.person)}"
    for page, nothing in types.nothing.items():
        yield f"- **Moves nothing** ([source]({page})): {spell_types(nothing)}"


def without_thin(types: EventTypes) -> EventTypes:
    def shown(table: frozenset[str]) -> frozenset[str]:
        return frozenset(
            event_type
            for event_type in table
            if event_type.removeprefix(THIN) not in table or not event_type.startswith(THIN)
        )

    nothing = {page: shown(table) for page, table in types.nothing.items()}
    return EventTypes(shown(types.books), shown(types.person), nothing)


def write_page() -> str:
    adapters = build_adapters(ProvidersSettings())
    lines = [HEAD.rstrip("\n")]
    for name, title in sorted(TITLES.items(), key=lambda entry: entry[1]):
        types: EventTypes = adapters[name].event_types
        if name == "stripe":
            types = without_thin(types)
        lines.extend(write_section(title, types))
        if name == "stripe":
            lines.append(
                f"- A thin event of any of these has `{THIN}` before its type. Unless it is fetched it is unknown."
            )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(write_page())
