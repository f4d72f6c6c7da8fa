"""Settings of what is masked as card data before Kafka."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

CARD_FIELDS = (
    "number",
    "card_number",
    "card_no",
    "cc_number",
    "credit_card_number",
    "account_pan",
    "pan",
    "primary_account_number",
)
SECRET_FIELDS = (
    "cvc",
    "cvc2",
    "cvc_code",
    "cvv",
    "cvv2",
    "cvv_code",
    "cvn",
    "cvd",
    "cav",
    "cav2",
    "cid",
    "csc",
    "card_cvc",
    "card_cvv",
    "card_code",
    "card_verification_value",
    "security_code",
    "card_security_code",
    "track1",
    "track2",
    "track1_data",
    "track2_data",
    "track3",
    "track3_data",
    "track_data",
    "track2_equivalent_data",
    "track1_discretionary_data",
    "track2_discretionary_data",
    "track_discretionary_data",
    "discretionary_data",
    "magnetic_stripe",
    "pin_block",
)


def field_name(name: str) -> str:
    """``cardNumber``, ``card_number`` and ``CARD-NUMBER`` are one name."""
    return name.replace("_", "").replace("-", "").lower()


def _plain(name: str) -> str:
    if not field_name(name).isalnum() or not name.isascii():
        raise ValueError("a field's name is ASCII letters, digits, _ and -")
    return name


FieldName = Annotated[str, AfterValidator(_plain)]


class PanSettings(BaseModel):
    """What counts as card data. Names are compared without case, ``_`` and ``-``; ids are never masked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    enabled: bool = Field(True, description="mask card numbers and the fields below before anything is stored")
    key_file: str = Field(
        "",
        description="file with the key of the hashes that masked events keep of their originals, the same for every "
        "receiver; made where it isn't there; empty: masking in ingest.secrets_dir",
    )
    card_fields: tuple[FieldName, ...] = Field(
        CARD_FIELDS,
        description="fields that hold card numbers: 12 to 19 digits in them are masked but for the last four, "
        "whether or not the check digit is right",
    )
    secret_fields: tuple[FieldName, ...] = Field(
        SECRET_FIELDS,
        description="fields that hold a card's codes and track data: masked wholly where they have a digit",
    )
