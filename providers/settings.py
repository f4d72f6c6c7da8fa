"""Settings of providers. Secrets aren't settings: they live in files."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, ValidationError

from core.errors import SettingError
from core.money import Movement
from core.settings import Section
from providers.fields import parse_pointer


def _check_pointer(text: str) -> str:
    parse_pointer(text)
    return text


Pointer = Annotated[str, AfterValidator(_check_pointer)]
NotificationUrl = Annotated[str, Field(pattern=r"^https?://[\x21-\x7e]+$")]


class MoneyRule(Section):
    """A rule for one type of event of a Standard Webhooks sender: where it says what money moved."""

    event_type: str = Field(min_length=1, description="The event's type, exactly")
    movement: Movement = Field(description="How money moved: capture, refund, dispute_opened, payout_paid, ...")
    id: Pointer = Field(
        description="JSON pointer (RFC 6901) to the movement's own id; of one that takes back another (refund_failed, "
        "dispute_won, payout_failed, ...) to the other's"
    )
    amount: Pointer = Field("/data/amount", description="JSON pointer to the amount: an integer, minor units")
    currency: Pointer = Field("/data/currency", description="JSON pointer to the currency: three letters")


class StandardWebhooksSettings(Section):
    """Pointers by which a Standard Webhooks sender's events are read; the specification leaves the body open."""

    type: Pointer = Field("/type", description="JSON pointer to the event's type")
    occurred_at: Pointer = Field("/timestamp", description="JSON pointer to the event's time (RFC 3339)")
    entity: Pointer = Field(
        "/data/payment",
        description="JSON pointer to what order is kept for; an event without it is an entity of its own",
    )
    account: Pointer = Field("/data/account", description="JSON pointer to the merchant account; may point at nothing")
    money: tuple[MoneyRule, ...] = Field((), description="Which types move money, and where they say so")
    moves_nothing: tuple[str, ...] = Field(
        (),
        description="Which types are known to move no money; of a type that neither this nor `money` names it isn't "
        "known, and its events are kept as unknown",
    )


class StripeSettings(Section):
    refund_events: bool = Field(
        False,
        description="The endpoint takes refund.created, refund.updated and refund.failed, and they book refunds; "
        "charge.refunded, which lists none since API version 2022-11-15, doesn't",
    )
    paypal_settles_outside: bool = Field(
        False,
        description="Payments by PayPal settle on PayPal, by the settlement preference that was chosen with Stripe, "
        "and not in Stripe's balance: they are booked as outside",
    )


Own = TypeVar("Own", bound=Section)
CaptureMode = Literal["immediate", "delayed", "manual"]


class AdyenSettings(Section):
    capture: dict[str, CaptureMode] = Field(
        {},
        description="When a merchant account captures, as its 'Capture delay' in Adyen's Customer Area: 'immediate' "
        "(its AUTHORISATION books), 'delayed' or 'manual' (its CAPTURE books; for 'delayed' turn that webhook on "
        "there). By account ('Shop'), or by account and payment method ('Shop/klarna'), which goes first; else "
        "'manual'",
    )
    platforms: dict[str, str] = Field(
        {},
        description="The merchant account through which payments come into each balance platform: payouts go out of "
        "the same balance at Adyen, and the platform's webhooks don't name it",
    )


class RazorpaySettings(Section):
    settlement_currency: str = Field(
        "INR",
        pattern="^[A-Z]{3}$",
        description="Currency that Razorpay settles in: its settlement events name none",
    )


class SquareSettings(Section):
    notification_urls: dict[str, NotificationUrl] = Field(
        {},
        description="By endpoint ('default' without one): the notification URL, exactly as in Square's console; "
        "Square signs it",
    )


class CheckoutSettings(Section):
    account: Pointer | Literal[""] = Field(
        "", description="JSON pointer to the merchant account, if all events have one; empty: one account, unnamed"
    )


class MollieSettings(Section):
    capture_events: bool = Field(
        False,
        description="The next-gen webhook takes capture.succeeded: the captures of payments that are captured by hand, "
        "later or by a method such as Klarna book. Without it the money of those payments is unknown",
    )


class PayPalSettings(Section):
    merchant_id: str = Field(
        "",
        pattern=r"^[A-Za-z0-9]{0,20}$",
        description="The merchant id of the account that v1's sales and refunds are of (PAYMENT.SALE.*), which name "
        "none; v2's name their payee. Set it where one account sends both, so that they are one balance; empty: v1's "
        "account has no name",
    )


ApiUrl = Annotated[
    str, Field(pattern=r"^(?:https://[A-Za-z0-9.:\[\]-]+|http://(?:127\.0\.0\.1|localhost):[0-9]{1,5})$")
]


class ProvidersSettings(Section):
    api_urls: dict[str, ApiUrl] = Field(
        {},
        description="Where a provider's API is asked instead: a proxy by https, or a simulator on this machine. By the "
        'API\'s own address: `"https://api.stripe.com" = "http://127.0.0.1:12111"`',
    )
    entity: Literal["payment", "merchant"] = Field(
        "payment", description="What order is kept for: each payment, or each merchant account as a whole"
    )
    stripe: StripeSettings = Field(StripeSettings(), description="What Stripe's endpoint is subscribed to")
    adyen: AdyenSettings = Field(AdyenSettings(), description="What Adyen's notifications don't say")
    standardwebhooks: StandardWebhooksSettings = Field(
        StandardWebhooksSettings(), description="How Standard Webhooks events are read"
    )
    razorpay: RazorpaySettings = Field(RazorpaySettings(), description="What Razorpay's events don't say")
    square: SquareSettings = Field(SquareSettings(), description="What Square signs beside the body")
    checkout: CheckoutSettings = Field(CheckoutSettings(), description="Where Checkout.com's events name an account")
    paypal: PayPalSettings = Field(PayPalSettings(), description="What PayPal's v1 events don't say")
    mollie: MollieSettings = Field(MollieSettings(), description="What Mollie's webhook is subscribed to")
    own: dict[str, dict[str, Any]] = Field(
        {}, description="Settings of adapters in packages of one's own, by the adapter's name"
    )

    def own_of(self, name: str, model: type[Own]) -> Own:
        """Returns the settings of an installed package's adapter.

        :raises SettingError: names the setting that is wrong
        """
        try:
            return model.model_validate(self.own.get(name, {}))
        except ValidationError as wrong:
            first = wrong.errors(include_url=False)[0]
            path = ".".join(["providers", "own", name, *map(str, first["loc"])])
            raise SettingError(path, first["msg"]) from None
