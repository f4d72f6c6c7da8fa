"""Square's event types (https://developer.squareup.com/docs/webhooks/v2webhook-events-tech-ref): which book, and which
move nothing. `providers.square` says how those that book are read.

Orders, invoices, terminal checkouts and gift cards are paid by payments, which report themselves; a terminal's refunds
by refunds. Attributes, catalogue, customers, staff and devices move nothing. No type is left to a person.
"""

from __future__ import annotations

from providers.event_types import EventTypes, types_of_objects

TEST = "https://developer.squareup.com/reference/square/webhook-subscriptions-api/test-webhook-subscription"
EVENTS = "https://developer.squareup.com/docs/webhooks/v2webhook-events-tech-ref"

BOOKS = types_of_objects(
    """
    dispute: created
    dispute.state: changed updated
    payment: created updated
    payout: failed paid sent
    refund: created updated
    """
)
NOTHING = types_of_objects(
    """
    bank_account: created disabled verified
    booking: created updated
    booking.custom_attribute.owned: deleted updated
    booking.custom_attribute.visible: deleted updated
    booking.custom_attribute_definition.owned: created deleted updated
    booking.custom_attribute_definition.visible: created deleted updated
    card: automatically_updated created disabled forgotten updated
    catalog.version: updated
    customer: created deleted updated
    customer.custom_attribute: deleted updated
    customer.custom_attribute.owned: deleted updated
    customer.custom_attribute.public: deleted updated
    customer.custom_attribute.visible: deleted updated
    customer.custom_attribute_definition: created deleted updated
    customer.custom_attribute_definition.owned: created deleted updated
    customer.custom_attribute_definition.public: created deleted updated
    customer.custom_attribute_definition.visible: created deleted updated
    device: created
    device.code: paired
    dispute.evidence: added created deleted removed
    gift_card: created customer_linked customer_unlinked updated
    gift_card.activity: created updated
    inventory.count: updated
    invoice: canceled created deleted payment_made published refunded scheduled_charge_failed updated
    job: created updated
    labor.scheduled_shift: created deleted published updated
    labor.shift: created deleted updated
    labor.timecard: created deleted updated
    location: created updated
    location.custom_attribute.owned: deleted updated
    location.custom_attribute.visible: deleted updated
    location.custom_attribute_definition.owned: created deleted updated
    location.custom_attribute_definition.visible: created deleted updated
    loyalty.account: created deleted updated
    loyalty.event: created
    loyalty.program: created updated
    loyalty.promotion: created updated
    merchant.custom_attribute.owned: deleted updated
    merchant.custom_attribute.visible: deleted updated
    merchant.custom_attribute_definition.owned: created deleted updated
    merchant.custom_attribute_definition.visible: created deleted updated
    oauth.authorization: revoked
    online_checkout.location_settings: updated
    online_checkout.merchant_settings: updated
    order: created updated
    order.custom_attribute.owned: deleted updated
    order.custom_attribute.visible: deleted updated
    order.custom_attribute_definition.owned: created deleted updated
    order.custom_attribute_definition.visible: created deleted updated
    order.fulfillment: updated
    subscription: created updated
    team_member: created updated
    team_member.wage_setting: updated
    terminal.action: created updated
    terminal.checkout: created updated
    terminal.refund: created updated
    transfer_order: created deleted updated
    vendor: created updated
    """
)

EVENT_TYPES = EventTypes(books=BOOKS, nothing={EVENTS: NOTHING, TEST: frozenset({"webhooks.test_notification"})})
