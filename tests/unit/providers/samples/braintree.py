"""Braintree: what its notifications are called and book, and which forms prove. An event's bytes are its XML."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, quote_plus, urlencode

from core.errors import Unparseable
from core.money import MoneyInvalid, MovementUnknown
from load.samples import braintree as samples_of
from load.samples import sign
from providers import ProvidersSettings, Request, build_adapters
from tests.unit.providers.samples.table import Comparison, MoneySequence, Refusal, Webhook, books, fails, shown
from tests.unit.providers.shapes import NOW

PUBLIC, PRIVATE = "integration_public_key", "integration_private_key"
SECRET = f"{PUBLIC}:{PRIVATE}"
ADAPTER = build_adapters(ProvidersSettings())["braintree"]
MONEY: dict[str, Any] = {"merchant_account": "M1", "amount": "12.50", "currency": "EUR", "triggered": NOW}
AT = "2026-01-31T12%3A00%3A00Z"
LEFT_TO_A_PERSON = ("disbursement_exception", "local_payment_reversed")


def transaction(kind: str = "transaction_settled", *changes: tuple[str, str], **more: Any) -> bytes:
    return changed(samples_of.transaction_event(kind, **{"transaction": "tx1", **MONEY, **more}), *changes)


def charged(*changes: tuple[str, str], **more: Any) -> bytes:
    about = {"subscription": "sub1", "transaction": "tx1", **MONEY, **more}
    return changed(samples_of.subscription_charged(**about), *changes)


def dispute(kind: str = "opened", **more: Any) -> bytes:
    return samples_of.dispute_event(f"dispute_{kind}", dispute="d1", transaction="tx1", **MONEY, **more)


def disputed_by_paypal(kind: str) -> Request:
    return posted(changed(dispute(kind), ("subtype>Visa<", "subtype>PayPal<")))


def disbursement(kind: str = "disbursement", *changes: tuple[str, str], **more: Any) -> bytes:
    return changed(samples_of.disbursement_event(kind, disbursement="db1", **MONEY, **more), *changes)


def changed(xml: bytes, *changes: tuple[str, str]) -> bytes:
    """The XML with other texts, each in its first place."""
    for old, new in changes:
        assert old.encode() in xml
        xml = xml.replace(old.encode(), new.encode(), 1)
    return xml


def declined(*changes: tuple[str, str], **more: Any) -> bytes:
    return transaction("transaction_settlement_declined", (">settled<", ">settlement_declined<"), *changes, **more)


def refund_failed(*changes: tuple[str, str]) -> bytes:
    return transaction("refund_failed", *changes, refund_of="tx0")


def posted(xml: bytes) -> Request:
    """The form in which Braintree posts it."""
    return Request(sign(ADAPTER, xml, SECRET, NOW).body, [])


def of_method(kind: str) -> bytes:
    """A notification about a payment method instead of a transaction."""
    subject = f"<{kind}><token>tok1</token><email>robin@example.com</email></{kind}>"
    xml = transaction("payment_method_revoked_by_customer", ("<subject>", f"<subject>{subject}"))
    return xml[: xml.index(b"<transaction>")].rstrip() + xml[xml.index(b"</transaction>") + len(b"</transaction>") :]


def with_older(place: str, status: str = "settled", **more: Any) -> bytes:
    """A charged subscription that lists an older transaction before or behind the one that was charged."""
    older = charged(**{"transaction": "tx0", "amount": "9.00", "triggered": NOW - timedelta(days=31), **more}).decode()
    older = older.replace(">submitted_for_settlement<", f">{status}<")
    both, end = charged().decode(), "</transaction>"
    at = both.index("</transactions>") if place == "behind" else both.index(">", both.index("<transactions ")) + 1
    return (both[:at] + older[older.index("<transaction>") : older.index(end) + len(end)] + both[at:]).encode()


def by(instrument: str) -> tuple[str, str]:
    """The change to a transaction that makes it one by that payment instrument."""
    return "<payment-instrument-type>credit_card<", f"<payment-instrument-type>{instrument}<"


BY_PAYPAL = by("paypal_account")
IN_THE_PAYPAL_ACCOUNT = {"local_payment": "local-payment", "sepa_debit_account": "sepa-debit-account-detail"}
"""By payment instrument besides PayPal's own: the element of its details."""
NO_INSTRUMENT = ("<payment-instrument-type>credit_card</payment-instrument-type>", "")
CHECK = samples_of.check_event(triggered=NOW)
OF_SOURCE = ("<subject>", "<source-merchant-id>s1</source-merchant-id><subject>")
NO_TIMESTAMP = ('<timestamp type="datetime">2026-01-31T12:00:00Z</timestamp>', "")
AMOUNT, CURRENCY = "<amount>12.50</amount>", "<currency-iso-code>EUR</currency-iso-code>"
CAPTURE, CAPTURE_FAILED = "tx1:capture 1250 EUR of tx1", "tx1:capture_failed 1250 EUR of tx1"
OLDER, TWICE = "tx0:capture 900 EUR of tx0", {"clearing": 2_150}
REFUND, REFUND_FAILED = "tx1:refund 1250 EUR of tx0", "tx1:refund_failed 1250 EUR of tx0"
OPENED, WON = "d1:dispute_opened 1250 EUR of tx1", "d1:dispute_won 1250 EUR of tx1"
LOST = "d1:dispute_lost 1250 EUR of tx1"
LOSSES = ("lost", "accepted", "auto_accepted", "expired")
DISBURSED = ("transaction_disbursed", "transaction_retried")

GIVEN_BACK = (
    (
        "<status>settled</status>\n          <type>sale<",
        "<status>settled</status>\n          <type>credit<",
    ),
    (
        '<created-at>2025-12-31T12:00:00Z</created-at>\n          <refunded-transaction-id nil="true"/>',
        "<created-at>2025-12-31T12:00:00Z</created-at><refunded-transaction-id>tx9</refunded-transaction-id>",
    ),
)
"""The changes that make the older charge of `with_older` a refund of another one."""

UNCHARGED = (("charged_successfully", "charged_unsuccessfully"), (">submitted_for_settlement<", ">processor_declined<"))
BOOKS: list[tuple[str, bytes, Any]] = [
    ("transaction_settled", transaction(), CAPTURE),
    *((kind, transaction(kind), CAPTURE) for kind in DISBURSED),
    ("a charged subscription", charged(), CAPTURE),
    *(
        (f"a charged subscription with an older charge {place}", with_older(place), [CAPTURE, OLDER])
        for place in ("behind", "before")
    ),
    *(
        (f"a charged subscription with an older {what}", changed(with_older("behind"), *GIVEN_BACK, *more), found)
        for what, more, found in (
            ("refund", (), [CAPTURE, "tx0:refund 900 EUR of tx9"]),
            ("refund that failed", [(">settled<", ">voided<")], [CAPTURE, "tx0:refund_failed 900 EUR of tx9"]),
        )
    ),
    ("a settled refund", transaction(refund_of="tx0"), REFUND),
    ("a disbursed refund", transaction("transaction_disbursed", refund_of="tx0"), REFUND),
    ("an authorized transaction", transaction("transaction_settled", (">settled<", ">authorized<")), None),
    ("a voided transaction", transaction("transaction_settled", (">settled<", ">voided<")), None),
    ("transaction_reviewed", transaction("transaction_reviewed"), None),
    ("a refund that failed", refund_failed(), REFUND_FAILED),
    ("a refund whose settlement was declined", refund_failed((">settled<", ">settlement_declined<")), REFUND_FAILED),
    ("a refund that the processor declined", refund_failed((">settled<", ">processor_declined<")), REFUND_FAILED),
    ("a declined settlement", declined(), CAPTURE_FAILED),
    ("a declined settlement of a refund", declined(refund_of="tx0"), REFUND_FAILED),
    ("a subscription that wasn't charged", charged(("charged_successfully", "charged_unsuccessfully")), None),
    ("a dispute", dispute(), OPENED),
    ("a dispute before arbitration", dispute(about="pre_arbitration"), OPENED),
    ("a retrieval", dispute(about="retrieval"), None),
    ("a lost retrieval", dispute("lost", about="retrieval"), None),
    *((f"dispute_{kind}", dispute(kind), None) for kind in ("disputed", "under_review")),
    ("a won dispute", dispute("won", amount_won="12.5"), WON),
    *((f"dispute_{kind}", dispute(kind), LOST) for kind in LOSSES),
    ("a disbursement", disbursement(), "db1:payout_paid 1250 EUR"),
    ("a disbursement that takes", disbursement(disbursement_type="debit"), "db1:payout_paid -1250 EUR"),
    ("a disbursement without success", disbursement(success=False), None),
    ("a check", CHECK, None),
    *(
        (
            f"{amount} {code} in minor units",
            transaction(amount=amount, currency=code),
            f"tx1:capture {minor} {code} of tx1",
        )
        for amount, code, minor in (
            *(("100", "USD", 10_000), ("100.5", "USD", 10_050), ("1250", "JPY", 1_250), ("1.234", "KWD", 1_234)),
        )
    ),
]
PAIRS = [
    ("a capture", transaction(), "tx1:capture"),
    ("a charged subscription", charged(), "tx1:capture"),
    ("a declined settlement", declined(), "tx1:capture"),
    ("a refund", transaction(refund_of="tx0"), "tx1:refund"),
    ("a disbursed refund", transaction("transaction_disbursed", refund_of="tx0"), "tx1:refund"),
    ("a declined refund", declined(refund_of="tx0"), "tx1:refund"),
    ("a refund that failed", refund_failed(), "tx1:refund"),
    ("a dispute", dispute(), "d1:dispute_opened"),
    ("a won dispute", dispute("won", amount_won="12.50"), "d1:dispute_opened"),
    ("a disbursement", disbursement(), None),
    ("a lost dispute", dispute("lost"), "d1:dispute_opened"),
]
UNSURE = [
    ("a declined settlement without its type", declined(("<type>sale</type>", ""))),
    *(
        (f"a transaction with {new!r} for {old}", transaction("transaction_settled", (old, new)))
        for old, new in (
            ("<type>sale</type>", ""),
            ("<id>tx1</id>", ""),
            (CURRENCY, ""),
            (AMOUNT, ""),
            (AMOUNT, '<amount nil="true"/>'),
        )
    ),
    ("a disbursement that doesn't say if it succeeded", disbursement("disbursement", ("true", ""))),
    ("a charged subscription without transactions", charged().replace(b"transactions", b"former-transactions")),
    (
        "an uncharged subscription whose transactions have no time",
        changed(with_older("before"), *UNCHARGED).replace(b"created-at", b"made-at"),
    ),
    ("a charged subscription whose transactions have no time", with_older("before").replace(b"created-at", b"made-at")),
    (
        "a settled transaction that is none",
        transaction().replace(b"transaction>", b"thing>").replace(b"<thing>", b"<thing/><thing>"),
    ),
    *(
        (f"an amount of {amount!r} {code}", transaction(amount=amount, currency=code))
        for amount, code in (
            *(("12.505", "EUR"), ("1.5", "JPY"), ("1e3", "EUR"), ("12,50", "EUR"), ("NaN", "EUR"), ("1", "EURO")),
            ("1", ""),
        )
    ),
]
UNKNOWN = [
    (
        "a payment by an instrument that no table has",
        transaction("transaction_settled", by("shells")),
        "the payment-instrument-type .shells.",
    ),
    ("a declined settlement of an unknown type", declined((">sale<", ">something<")), "the transaction.type"),
    (
        "a transaction of an unknown type",
        transaction("transaction_settled", (">sale<", ">something<")),
        "transaction.type",
    ),
    ("an unknown status", transaction("transaction_settled", (">settled<", ">something_new<")), "the status"),
    ("a disbursement both ways", disbursement("disbursement", (">credit<", ">both<")), "the disbursement-type"),
    ("a dispute of an unknown kind", dispute(about="something_new"), "the dispute.kind"),
    ("a kind that no table has", transaction("made_up"), "the type 'made_up'"),
]
WEBHOOKS = [
    *books(*((case, posted(xml), booked) for case, xml, booked in BOOKS)),
    *(Webhook(f"{case} names its pair", posted(xml), pair=pair) for case, xml, pair in PAIRS),
    *(
        Webhook(
            f"a loss, {kind}, is told with the debit before it",
            posted(dispute(kind)),
            type=[f"dispute_{kind}.withheld", f"dispute_{kind}"],
            books=[OPENED, LOST],
            pair=["d1:dispute_opened"] * 2,
        )
        for kind in LOSSES
    ),
    Webhook("a won dispute is one event", posted(dispute("won", amount_won="12.50")), type=["dispute_won"]),
    Webhook("a lost retrieval is one event", posted(dispute("lost", about="retrieval")), type=["dispute_lost"]),
    *fails(MoneyInvalid, *((case, posted(xml)) for case, xml in UNSURE)),
    *books(
        *(
            (
                f"{kind} of a payment by PayPal",
                posted(transaction(kind, BY_PAYPAL)),
                "tx1:capture 1250 EUR of tx1, 1250 outside:paypal",
            )
            for kind in ("transaction_settled", "transaction_disbursed")
        ),
        (
            "a refund by PayPal",
            posted(transaction("transaction_settled", BY_PAYPAL, refund_of="tx0")),
            "tx1:refund 1250 EUR of tx0, 1250 outside:paypal",
        ),
        *(
            (
                f"a payment by {instrument}, whose money PayPal has",
                posted(transaction("transaction_settled", by(instrument))),
                "tx1:capture 1250 EUR of tx1, 1250 outside:paypal",
            )
            for instrument in IN_THE_PAYPAL_ACCOUNT
        ),
        *(
            (
                f"{kind}, which doesn't say by what",
                posted(transaction(kind, NO_INSTRUMENT)),
                "tx1:capture 1250 EUR of tx1, 1250 outside:paypal",
            )
            for kind in ("local_payment_completed", "local_payment_funded")
        ),
        ("a sale that doesn't say by what", posted(transaction("transaction_settled", NO_INSTRUMENT)), CAPTURE),
        (
            "a payment by Venmo",
            posted(transaction("transaction_settled", by("venmo_account"))),
            "tx1:capture 1250 EUR of tx1",
        ),
        (
            "a dispute of a payment by PayPal",
            posted(changed(dispute(), (">Visa<", ">PayPal<"))),
            "d1:dispute_opened 1250 EUR of tx1, 1250 outside:paypal",
        ),
    ),
    # As a pair it would undo the whole debit, whichever of the two is told first.
    Webhook(
        "a dispute that gives back a part",
        posted(dispute("won", amount_won="10.00")),
        books="d1:dispute_won 1000 EUR of tx1",
        pair=None,
    ),
    *fails(MovementUnknown, *((case, posted(xml), says) for case, xml, says in UNKNOWN)),
    *fails(
        MoneyInvalid,
        *(
            (f"a dispute of which {won} is won", posted(dispute("won", amount_won=won)), "won")
            for won in ("0.00", "12.51", "-1.00")
        ),
        *(
            (f"{kind} is for a person, of {what}", posted(xml), f"{kind} .* manual entry")
            for kind in LEFT_TO_A_PERSON
            for what, xml in (
                ("a disbursement", disbursement(kind, success=False)),
                ("a transaction", transaction(kind)),
            )
        ),
    ),
    *fails(
        Unparseable,
        (
            "an amount that comes twice",
            posted(transaction("transaction_settled", (AMOUNT, f"{AMOUNT}<amount>1250</amount>"))),
        ),
    ),
    Webhook(
        "a transaction's names", posted(transaction()), key=f"transaction/tx1/{AT}:transaction_settled", entity=":tx1"
    ),
    *(
        Webhook(f"a {kind} is an entity of its own", posted(of_method(kind)), entity=":tok1")
        for kind in ("paypal-account", "granted-payment-instrument-update")
    ),
    *(
        Webhook(f"{what} is of its transaction's entity", posted(xml), entity=":tx1")
        for what, xml in (
            ("a charged subscription", charged()),
            ("a disbursed transaction", transaction("transaction_disbursed")),
            ("a declined settlement", declined()),
            ("a dispute", dispute()),
            ("a won dispute", dispute("won")),
            ("a refund", transaction("transaction_settled", ("<id>tx1<", "<id>tx2<"), refund_of="tx1")),
        )
    ),
    *(
        row
        for what, xml, account in (
            ("a transaction", transaction(), "M1"),
            ("a charged subscription", charged(), "M1"),
            ("a dispute", dispute(), "M1"),
            ("a disbursement", disbursement(), "M1"),
            ("a check of a source", changed(CHECK, OF_SOURCE), "s1"),
            ("a check", CHECK, ""),
        )
        for row in (
            Webhook(f"the account of {what}", posted(xml), account=account),
            Webhook(
                f"order kept for the account of {what}", posted(xml), entity=account, settings={"entity": "merchant"}
            ),
        )
    ),
    *(
        Webhook(f"poison: {shown(xml)}", posted(xml), refused=Unparseable)
        for xml in (
            b"<something/>",
            transaction("transaction_settled", ("<kind>transaction_settled</kind>", "")),
            transaction("transaction_settled", ("</kind>", "</kind><kind>check</kind>")),
            b"<notification/>",
            b"not xml",
            b'<!DOCTYPE notification [<!ENTITY k "check">]><notification><kind>&k;</kind></notification>',
        )
    ),
]
COMPARISONS = [
    *(
        Comparison(f"a transaction, {what}", posted(transaction()), posted(xml), key=False, fact=True, entity=True)
        for what, xml in (("of a subscription", charged()), ("disbursed", transaction("transaction_disbursed")))
    ),
    Comparison("another amount", posted(transaction()), posted(transaction(amount="12.51")), key=True, content=False),
    Comparison(
        "other blanks",
        posted(transaction()),
        posted(transaction("transaction_settled", ("  <kind>", "<kind>"))),
        content=True,
    ),
    *(
        Comparison(f"another {what}", posted(transaction()), posted(xml), key=False)
        for what, xml in (
            ("time", transaction("transaction_settled", ("12:00:00Z</timestamp>", "12:00:01Z</timestamp>"))),
            ("source", transaction("transaction_settled", OF_SOURCE)),
            ("kind", transaction("transaction_disbursed")),
        )
    ),
    *(
        Comparison(f"a refund and its failure, {what}", posted(done), posted(refund_failed()), entity=True)
        for what, done in (
            ("settled", transaction(refund_of="tx0")),
            ("disbursed", transaction("transaction_disbursed", refund_of="tx0")),
        )
    ),
]


def with_service_fee(xml: bytes, fee: str = "1.00") -> Request:
    """Of a sub-merchant's transaction."""
    return posted(
        changed(xml, ("</currency-iso-code>", f"</currency-iso-code><service-fee-amount>{fee}</service-fee-amount>"))
    )


def with_paypals_fee(
    xml: bytes, fee: str = "0.70", name: str = "transaction-fee-amount", details: str = "paypal"
) -> Request:
    """Of a transaction that PayPal settles, which says what that took."""
    said = f"<{name}>{fee}</{name}><transaction-fee-currency-iso-code>EUR</transaction-fee-currency-iso-code>"
    return posted(changed(xml, ("</currency-iso-code>", f"</currency-iso-code><{details}>{said}</{details}>")))


def of_details(details: str, payer: str = "<payer-email>robin@example.com</payer-email>") -> bytes:
    """A settled transaction that doesn't say by what it was paid, but has details of that."""
    said = f"</currency-iso-code><{details}>{payer}</{details}>"
    return transaction("transaction_settled", NO_INSTRUMENT, ("</currency-iso-code>", said))


WEBHOOKS += [
    *(
        Webhook(
            f"a sale that only its {details} details tell", posted(of_details(details)), books=f"{CAPTURE}{outside}"
        )
        for details, outside in (
            *((name, ", 1250 outside:paypal") for name in ("paypal", "local-payment", "sepa-debit-account-detail")),
            ("credit-card", ""),
        )
    ),
    *(
        Webhook(f"a sale whose PayPal details say nothing: {said!r}", posted(of_details("paypal", said)), books=CAPTURE)
        for said in ("", "<payer-email/>", '<payer-email nil="true"/>', "<debug-id>  </debug-id>")
    ),
]
PAYPALS_FEE = ["tx1:paypal_fee 70 EUR of tx1, 70 outside:paypal"]
SERVICE_FEE = ["tx1:service_fee 100 EUR of tx1"]
WEBHOOKS += [
    Webhook(f"service fees of {case}", body, fees=fees)
    for case, body, fees in (
        ("a sale", with_service_fee(transaction()), SERVICE_FEE),
        ("a sale that is disbursed", with_service_fee(transaction("transaction_disbursed")), SERVICE_FEE),
        (
            "a sale that isn't taken",
            with_service_fee(transaction("transaction_settled", (">settled<", ">failed<"))),
            [],
        ),
        ("a sale, of zero", with_service_fee(transaction(), "0.00"), []),
        ("a sale without them", posted(transaction()), []),
        ("a sale by PayPal", with_paypals_fee(transaction("transaction_settled", BY_PAYPAL)), PAYPALS_FEE),
        *(
            (
                f"a sale by {instrument}",
                with_paypals_fee(transaction("transaction_settled", by(instrument)), details=details),
                PAYPALS_FEE,
            )
            for instrument, details in IN_THE_PAYPAL_ACCOUNT.items()
        ),
        ("a sale by PayPal, of zero", with_paypals_fee(transaction("transaction_settled", BY_PAYPAL), "0.00"), []),
        ("a sale that isn't by PayPal", with_paypals_fee(transaction()), []),
        ("a sale by PayPal that is declined", with_paypals_fee(declined(BY_PAYPAL), "0.00"), []),
        ("a refund, which says none", posted(transaction(refund_of="tx0")), []),
        ("a dispute", posted(dispute()), []),
    )
]
FIRST_MONTH = charged(transaction="tx0", amount="9.00", triggered=NOW - timedelta(days=31))
LISTED_FEE = ("<amount>9.00</amount>", "<amount>9.00</amount><service-fee-amount>1.00</service-fee-amount>")
"""The change that gives the older charge of `with_older` a service fee."""
SEQUENCES = [
    MoneySequence(
        "a dispute that gives back a part",
        [posted(transaction()), posted(dispute()), posted(dispute("won", amount_won="10.00"))],
        {"clearing": 1_000, "disputes": 250},
    ),
    MoneySequence(
        "a sub-merchant's sale, told twice, less the marketplace's fee",
        [with_service_fee(transaction()), with_service_fee(transaction("transaction_disbursed"))],
        {"clearing": 1_150, "fees": 100},
    ),
    MoneySequence(
        "a sale by PayPal, told twice, less what PayPal takes",
        [with_paypals_fee(transaction(kind, BY_PAYPAL)) for kind in ("transaction_settled", "transaction_disbursed")],
        {"outside:paypal:clearing": 1_180, "fees": 70},
    ),
    MoneySequence(
        "a local payment that is told three times, and a refund of it that fails",
        [
            posted(transaction("local_payment_completed", NO_INSTRUMENT, transaction="tx0")),
            posted(transaction("local_payment_funded", NO_INSTRUMENT, transaction="tx0")),
            posted(transaction("transaction_settled", by("local_payment"), transaction="tx0")),
            posted(transaction("transaction_settled", by("local_payment"), refund_of="tx0")),
            posted(refund_failed(by("local_payment"))),
        ],
        {"outside:paypal:clearing": 1_250},
    ),
    MoneySequence(
        "a SEPA debit that comes back after it was settled",
        [
            posted(transaction("transaction_settled", by("sepa_debit_account"))),
            posted(declined(by("sepa_debit_account"))),
        ],
        {},
    ),
    MoneySequence(
        "a chargeback that is won, and a pre-arbitration after it that is lost",
        [
            posted(transaction()),
            posted(dispute()),
            posted(dispute("won", amount_won="12.50")),
            *(posted(changed(dispute(kind, about="pre_arbitration"), (">d1<", ">d2<"))) for kind in ("opened", "lost")),
        ],
        {"dispute_losses": 1_250},
    ),
    MoneySequence(
        "a retrieval that becomes a chargeback",
        [posted(transaction()), posted(dispute(about="retrieval")), posted(changed(dispute(), (">d1<", ">d2<")))],
        {"disputes": 1_250},
    ),
    MoneySequence("a charge that the next one lists too", [posted(FIRST_MONTH), posted(with_older("behind"))], TWICE),
    *(
        MoneySequence(
            f"a sub-merchant's charge that the next one lists with its service fee, {told}",
            [*before, with_service_fee(changed(with_older("behind"), LISTED_FEE))],
            {"clearing": 2_150 - 200, "fees": 200},
        )
        for told, before in (("told before", [with_service_fee(FIRST_MONTH)]), ("told by that alone", []))
    ),
    *(
        MoneySequence(
            f"a charge that was {status} by the time of the next one",
            [posted(FIRST_MONTH), posted(with_older("behind", status))],
            {"clearing": 1_250},
        )
        for status in ("voided", "settlement_declined")
    ),
    *(
        MoneySequence(
            f"a charge that was {status} by the time that the next one failed",
            [posted(FIRST_MONTH), posted(changed(with_older("behind", status), *UNCHARGED))],
            {"clearing": minor},
        )
        for status, minor in (("voided", 0), ("settlement_declined", 0), ("settled", 900))
    ),
    MoneySequence(
        "a refund that failed, whatever its transaction's status is by then",
        [
            posted(transaction(transaction="tx0", amount="100.00")),
            posted(transaction(refund_of="tx0")),
            posted(refund_failed((">settled<", ">processor_declined<"))),
        ],
        {"clearing": 10_000},
    ),
    *(
        MoneySequence(
            f"a dispute that is {loss}, {told}",
            [*before, *[posted(dispute(loss))] * 2],
            {"clearing": -1_250, "dispute_losses": 1_250},
        )
        for loss in LOSSES
        for told, before in (("its opening told", [posted(dispute())]), ("its opening untold", []))
    ),
]

# Which forms prove.

SIGNED = posted(transaction())
FIELDS = dict(parse_qsl(SIGNED.body.decode()))
SIGNATURE, PAYLOAD = FIELDS["bt_signature"], FIELDS["bt_payload"]
BAD_SECRETS = ("", PUBLIC, ":", f"{PUBLIC}:", f":{PRIVATE}", "a b:c", "a|b:c", "a:é", "a:b c")


def form(*fields: tuple[str, str]) -> bytes:
    return urlencode(fields).encode()


def signed_form(signature: str, payload: str = PAYLOAD) -> bytes:
    return form(("bt_signature", signature), ("bt_payload", payload))


WEBHOOKS += [
    Webhook(
        f"a payload that isn't base64: {shown(payload)}",
        Request(signed_form(SIGNATURE, payload), []),
        refused=Unparseable,
    )
    for payload in ("", "AAAA=AAA", "A", quote_plus(PAYLOAD), "é")
]
REFUSALS = [
    *(
        Refusal(case, Request(body, []), reason, (SECRET,))
        for case, body, reason in (
            ("nothing", b"", "missing"),
            ("no signature", form(("bt_payload", PAYLOAD)), "missing"),
            ("no payload", form(("bt_signature", SIGNATURE)), "missing"),
            ("names in capitals", form(("BT_SIGNATURE", SIGNATURE), ("bt_payload", PAYLOAD)), "missing"),
            ("an empty signature", signed_form(""), "missing"),
            ("a signature without its key", signed_form(SIGNATURE.partition("|")[2]), "missing"),
            ("a form with semicolons", SIGNED.body.replace(b"&", b";"), "missing"),
            ("another key", signed_form(SIGNATURE.replace(PUBLIC, "another_key")), "mismatch"),
            ("blanks in the signature", signed_form(SIGNATURE.replace("|", " | ")), "mismatch"),
            ("a line end behind the signature", signed_form(SIGNATURE + "\n"), "mismatch"),
            ("a signature in capitals", signed_form(SIGNATURE.upper()), "mismatch"),
            ("a line end behind the payload", signed_form(SIGNATURE, PAYLOAD + "\n"), "mismatch"),
            ("seventeen pairs", signed_form("&".join([f"k{n}|{'0' * 40}" for n in range(17)])), "malformed"),
            ("a signature beyond ASCII", signed_form("é"), "malformed"),
            ("an empty payload", signed_form(SIGNATURE, ""), "malformed"),
            ("a payload that is XML", signed_form(SIGNATURE, "<xml/>"), "malformed"),
            ("a payload with other line ends", signed_form(SIGNATURE, PAYLOAD.replace("\n", "\r\n")), "malformed"),
            ("a payload and a blank", signed_form(SIGNATURE, PAYLOAD + " "), "malformed"),
            ("a payload and a null byte", signed_form(SIGNATURE, PAYLOAD + "\x00"), "malformed"),
            ("two payloads", SIGNED.body + b"&" + form(("bt_payload", PAYLOAD)), "malformed"),
            ("two signatures", form(("bt_signature", SIGNATURE)) + b"&" + SIGNED.body, "malformed"),
            ("twenty more fields", form(*((f"f{n}", "") for n in range(20))) + b"&" + SIGNED.body, "malformed"),
            ("an & at the end", SIGNED.body + b"&", "malformed"),
            ("a field without a value", SIGNED.body + b"&novalue", "malformed"),
            ("a field beyond ASCII", SIGNED.body + "&é=1".encode(), "malformed"),
            ("a value that isn't UTF-8", SIGNED.body + b"&x=%ff", "malformed"),
            ("an unescaped form", SIGNED.body.replace(b"%2B", b"+").replace(b"%0A", b"\n"), "malformed"),
            ("JSON", b'{"bt_signature":"x","bt_payload":"y"}', "malformed"),
            ("a field that Braintree may add", SIGNED.body + b"&bt_more=1", None),
        )
    ),
    *(
        Refusal(
            f"content types of {shown(kinds)}: the receiver judges them",
            Request(SIGNED.body, [(b"content-type", kind) for kind in kinds]),
            None,
            (SECRET,),
        )
        for kinds in (
            [b"application/x-www-form-urlencoded"],
            [b"Application/X-WWW-Form-URLencoded; charset=UTF-8"],
            [b"application/x-www-form-urlencoded", b"application/x-www-form-urlencoded"],
            [b"application/x-www-form-urlencoded, application/x-www-form-urlencoded;charset=utf-8"],
            [b"application/x-www-form-urlencoded; profile=" + b"a" * 200],
        )
    ),
    Refusal("no content type", SIGNED, None, (SECRET,)),
]
