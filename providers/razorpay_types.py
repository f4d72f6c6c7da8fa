"""Razorpay's event types: which book, which are left to a person, and which move nothing. `providers.razorpay` says how
those that book are read, and why.
"""

from __future__ import annotations

from providers.event_types import EventTypes, types_of_objects
from providers.fields import names

PARTNERS = "https://razorpay.com/docs/partners"
TOKENS = "https://razorpay.com/docs/payments/payment-methods/cards/token-hq"
RECURRING = "https://razorpay.com/docs/payments/payment-gateway/s2s-integration/recurring-payments/upi/webhooks"
EVENT_TYPES = EventTypes(
    books=types_of_objects(
        """
        fund_account.validation: completed
        payment: captured
        payment.dispute: closed created lost won
        payout: failed initiated processed reversed
        refund: created failed processed
        settlement: processed
        transaction: created
        """
    ),
    person=names("settlement.vpa_completed transfer.processed"),
    nothing={
        "https://razorpay.com/docs/webhooks/all/": types_of_objects(
            """
            invoice: expired paid partially_paid
            order: paid
            order.notification: delivered failed
            payment: authorized failed pending
            payment.dispute: action_required under_review
            payment.downtime: resolved started updated
            payment_link: cancelled expired paid partially_paid
            payout: pending queued rejected updated
            qr_code: closed created credited
            refund: speed_changed
            subscription: activated authenticated cancelled charged completed halted paused pending
              resumed updated
            virtual_account: closed created credited
            """
        ),
        "https://razorpay.com/docs/webhooks/payouts": types_of_objects(
            """
            payout.downtime: resolved started
            """
        ),
        # "In case the validation moves to a failed state, the charges will be reversed to your account."
        "https://razorpay.com/docs/x/fund-accounts/faqs": names("fund_account.validation.failed"),
        "https://razorpay.com/docs/webhooks/partners": types_of_objects(
            """
            account: activated activated_kyc_pending funds_hold funds_unhold instantly_activated
              needs_clarification payments_enabled rejected suspended under_review updated
            account.app: authorization_revoked
            product.payment_gateway: activated activated_kyc_pending instantly_activated needs_clarification
              rejected under_review
            product.payment_link: rejected
            product.payment_links: activated activated_kyc_pending needs_clarification under_review
            """
        ),
        f"{PARTNERS}/aggregators/onboarding-api/instant-activation": names(
            "account.instant_activation_gmv_limit_warning"
        ),
        f"{PARTNERS}/technology-partners/onboard-businesses/integrate-oauth/integration-steps": names(
            "banking_accounts.issued"
        ),
        "https://razorpay.com/docs/webhooks/payout-links": types_of_objects(
            """
            payout_link: attempted cancelled expired issued pending processed processing rejected
            """
        ),
        "https://razorpay.com/docs/webhooks/route": types_of_objects(
            """
            linked_account: vpa_created
            payout: vpa_failed
            product.route: activated needs_clarification rejected under_review
            transfer: failed
            transfers: failed
            """
        ),
        RECURRING: types_of_objects(
            """
            token: confirmed rejected
            """
        ),
        "https://razorpay.com/docs/api/payments/recurring-payments/custom/webhooks": types_of_objects(
            """
            notification: delivered failed
            token: cancelled paused resumed
            """
        ),
        "https://razorpay.com/docs/payments/payment-gateway/s2s-integration/recurring-payments/upi-reserve-pay/"
        "webhooks": names("token.cancellation_initiated"),
        f"{TOKENS}/merchant-requestor/webhooks": types_of_objects(
            """
            token: activated deactivated expiry_updated initiated suspended
            """
        ),
        f"{TOKENS}/merchant-requestor-with-network-tokens/webhooks": types_of_objects(
            """
            token.service_provider: activated cancelled deactivated failed
            """
        ),
        f"{PARTNERS}/aggregators/partner-auth/recurring-payments/cards/payment-api": names(
            "token.service_provider_token.activated"
        ),
    },
)
