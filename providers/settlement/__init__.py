"""Settlement reports: what a provider says of the money that it moved, as the facts that its webhooks name."""

from __future__ import annotations

from collections.abc import Mapping

from providers.settings import ProvidersSettings
from providers.settlement.adyen import AdyenSettlement
from providers.settlement.report import SettlementReport
from providers.settlement.stripe import StripeBalance

REPORTS: Mapping[str, type[StripeBalance] | type[AdyenSettlement]] = {
    report.provider: report for report in (StripeBalance, AdyenSettlement)
}
"""By provider: the one list that a new report is added to."""


def build_report(provider: str, settings: ProvidersSettings, account: str = "") -> SettlementReport:
    """Builds the reader of a provider's report.

    :param account: whose report it is, where the report itself doesn't name the account
    """
    return REPORTS[provider](settings, account)
