"""Stripe's event types (https://docs.stripe.com/api/events/types and https://docs.stripe.com/api/v2/core/events/event-types):
which book, which a person books, and which move nothing. `providers.stripe_money` says how those that book are read.

Objects that are about what is sold, who buys, and how it is billed move nothing by themselves: what is paid is a
charge, which reports itself (https://docs.stripe.com/payments/payment-intents, https://docs.stripe.com/billing/invoices/overview).
A balance's parts that are set aside (``reserve``) stay in the account.
"""

from __future__ import annotations

from providers.event_types import EventTypes, types_of_objects

EVENTS = "https://docs.stripe.com/api/events/types"
EVENTS_V2 = "https://docs.stripe.com/api/v2/core/events/event-types"
THIN = "v1."
"""Before the name of a v1 type whose event only points to its object
(https://docs.stripe.com/changelog/dahlia/2026-09-30)."""

BOOKS = types_of_objects(
    """
    application_fee: created
    charge: captured refunded succeeded updated
    charge.dispute: closed created funds_reinstated funds_withdrawn
    charge.refund: updated
    customer_cash_balance_transaction: created
    payout: failed paid
    refund: created failed updated
    """
)
PERSON = types_of_objects(
    """
    application_fee: refunded
    climate.order: canceled created
    issuing_dispute: funds_reinstated funds_rescinded
    issuing_transaction: created
    topup: reversed succeeded
    transfer: created reversed
    treasury.credit_reversal: posted
    treasury.debit_reversal: completed initial_credit_granted
    treasury.inbound_transfer: failed succeeded
    treasury.outbound_payment: failed posted returned
    treasury.outbound_transfer: failed posted returned
    treasury.received_credit: succeeded
    treasury.received_debit: created
    v2.money_management.adjustment: created
    v2.money_management.inbound_transfer: available bank_debit_returned
    v2.money_management.outbound_payment: failed posted returned
    v2.money_management.payout_intent: posted
    v2.money_management.received_credit: available returned succeeded
    v2.money_management.transaction: created
    """
)
"""Connect's transfers and refunded fees, top-ups, what cards spend that the account issued, what is bought from Stripe,
and money that is kept at Stripe beside the payments balance: no movement of the ledger fits these."""
NOTHING = types_of_objects(
    """
    account: updated
    account.application: authorized deauthorized
    account.external_account: created deleted updated
    application_fee.refund: updated
    apps.install: created deleted updated
    balance: available
    balance_settings: updated
    billing.alert: triggered
    billing.credit_balance_transaction: created
    billing.credit_grant: created updated
    billing.meter: created deactivated reactivated updated
    billing_portal.configuration: created updated
    billing_portal.session: created
    capability: updated
    cash_balance: funds_available
    charge: expired failed pending
    charge.dispute: updated
    checkout.session: async_payment_failed async_payment_succeeded completed expired
    climate.order: delayed delivered product_substituted
    climate.product: created pricing_updated
    coupon: created deleted updated
    credit_note: created updated voided
    customer: created deleted updated
    customer.discount: created deleted updated
    customer.source: created deleted expiring updated
    customer.subscription: created deleted paused pending_update_applied pending_update_expired resumed
      trial_will_end updated
    customer.tax_id: created deleted updated
    entitlements.active_entitlement_summary: updated
    file: created
    financial_connections.account: account_numbers_updated created deactivated disconnected
      expected_deactivation_date_updated reactivated refreshed_balance refreshed_ownership refreshed_transactions
      supported_payment_method_types_updated upcoming_account_number_expiry upcoming_deactivation
    financial_connections.authorization: expected_deactivation_date_updated upcoming_deactivation
    identity.verification_session: canceled created processing redacted requires_input verified
    invoice: created deleted finalization_failed finalized marked_uncollectible overdue overpaid paid
      payment_action_required payment_attempt_required payment_failed payment_succeeded sent upcoming updated voided
      will_be_due
    invoice_payment: paid
    invoiceitem: created deleted
    issuing_authorization: created request updated
    issuing_card: created updated
    issuing_cardholder: created updated
    issuing_dispute: closed created submitted updated
    issuing_personalization_design: activated deactivated rejected updated
    issuing_token: created updated
    issuing_transaction: purchase_details_receipt_updated updated
    mandate: updated
    payment_intent: amount_capturable_updated canceled created partially_funded payment_failed processing
      requires_action succeeded
    payment_link: created updated
    payment_method: attached automatically_updated detached updated
    payout: canceled created reconciliation_completed updated
    person: created deleted updated
    plan: created deleted updated
    price: created deleted updated
    product: created deleted updated
    promotion_code: created updated
    quote: accepted canceled created finalized
    radar.early_fraud_warning: created updated
    reporting.report_run: failed succeeded
    reporting.report_type: updated
    reserve.hold: created updated
    reserve.plan: created disabled expired updated
    reserve.release: created
    review: closed opened
    setup_intent: canceled created requires_action setup_failed succeeded
    sigma.scheduled_query_run: created
    source: canceled chargeable failed mandate_notification refund_attributes_required
    source.transaction: created updated
    subscription_schedule: aborted canceled completed created expiring released updated
    tax.settings: updated
    tax_rate: created updated
    terminal.reader: action_failed action_succeeded action_updated
    test_helpers.test_clock: advancing created deleted internal_failure ready
    three_d_secure.authentication: canceled challenge_started errored failed requires_challenge requires_submission
      succeeded
    topup: canceled created failed
    transfer: updated
    treasury.credit_reversal: created
    treasury.debit_reversal: created
    treasury.financial_account: closed created features_status_updated
    treasury.inbound_transfer: canceled created
    treasury.outbound_payment: canceled created expected_arrival_date_updated tracking_details_updated
    treasury.outbound_transfer: canceled created expected_arrival_date_updated tracking_details_updated
    treasury.received_credit: created failed
    """
)
NOTHING_V2 = types_of_objects(
    """
    v2.commerce.product_catalog.imports: failed processing succeeded succeeded_with_errors
    v2.core.account: closed created updated
    v2.core.account[configuration.customer]: capability_status_updated updated
    v2.core.account[configuration.merchant]: capability_status_updated updated
    v2.core.account[configuration.recipient]: capability_status_updated updated
    v2.core.account[defaults]: updated
    v2.core.account[future_requirements]: updated
    v2.core.account[identity]: updated
    v2.core.account[requirements]: updated
    v2.core.account_link: returned
    v2.core.account_person: created deleted updated
    v2.core.event_destination: ping
    v2.money_management.financial_account: created updated
    v2.money_management.financial_address: activated failed
    v2.money_management.inbound_transfer: bank_debit_failed bank_debit_processing bank_debit_queued
      bank_debit_succeeded
    v2.money_management.outbound_payment: canceled created under_review updated
    v2.money_management.payout_intent: canceled created pending processing requires_action updated
    v2.money_management.payout_method: created updated
    v2.money_management.received_credit: failed
    v2.money_management.recipient_verification: created updated
    v2.money_management.transaction: updated
    """
)
NOTHING_THIN = types_of_objects(
    """
    billing.meter: error_report_triggered no_meter_found
    customer.discount: source_changed
    customer.subscription: active cancel_at_changed default_payment_method_changed incomplete incomplete_expired
      item_added item_price_changed item_quantity_changed item_removed item_tax_rates_changed past_due trialing
      unpaid
    entitlements.active_entitlement_summary: entitlement_added entitlement_removed
    financial_connections.account: balance_refresh_failed balance_refresh_succeeded inferred_balances_refresh_failed
      inferred_balances_refresh_succeeded ownership_refresh_failed ownership_refresh_succeeded
      risk_intelligence_refresh_failed risk_intelligence_refresh_succeeded transactions_refresh_failed
      transactions_refresh_succeeded
    invoice: discount_added discount_removed line_item_added line_item_pricing_changed line_item_quantity_changed
      line_item_removed
    invoice_payment: canceled open
    invoiceitem: amount_changed discount_added discount_removed
    price: activated deactivated lookup_key_changed tax_behavior_changed
    product: activated deactivated default_price_changed tax_code_changed
    promotion_code: fully_redeemed
    subscription_schedule: phase_added phase_default_tax_rates_changed phase_end_date_changed phase_removed
      phase_trial_end_changed
    """
)
"""Types that exist as thin events alone."""


def name_thin_types(types: frozenset[str]) -> frozenset[str]:
    return frozenset(THIN + event_type for event_type in types)


THIN_BOOKS = name_thin_types(BOOKS)
"""Those whose objects are fetched."""
EVENT_TYPES = EventTypes(
    books=BOOKS | THIN_BOOKS,
    person=PERSON | name_thin_types(frozenset(name for name in PERSON if not name.startswith("v2."))),
    nothing={EVENTS: NOTHING | name_thin_types(NOTHING), EVENTS_V2: NOTHING_V2 | name_thin_types(NOTHING_THIN)},
)
