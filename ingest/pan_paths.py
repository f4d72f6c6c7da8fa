"""Where in a body providers have their ids: a field named as an id anywhere else can hold anything."""

from __future__ import annotations

_ADYEN = "notificationItems NotificationRequestItem data events accountHolder balanceAccount categoryData sweep"
_BRAINTREE = "notification subject transactions transaction subscription dispute"
_CHECKOUT_GOCARDLESS_MOLLIE = "processing source links _embedded entity event"
_PADDLE_PAYPAL = (
    "payments resource disputed_transactions batch_header payout_item related_resources purchase_units captures "
    "refunds authorizations supplementary_data related_ids"
)
_RAZORPAY = "payload payment order refund payment_link invoice payout virtual_account account"
_SQUARE_STRIPE = "object disputed_payment charges request"

ENVELOPES = frozenset(
    " ".join((_ADYEN, _BRAINTREE, _CHECKOUT_GOCARDLESS_MOLLIE, _PADDLE_PAYPAL, _RAZORPAY, _SQUARE_STRIPE))
    .encode()
    .split()
)
"""Names of objects and elements. The path to an id goes from a body's root through these alone: none of them is a map
that a merchant fills (metadata, notes, custom fields, additional data)."""
