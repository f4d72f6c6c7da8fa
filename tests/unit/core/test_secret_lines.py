"""What a file of secrets may hold: secrets, one a line, and nothing else."""

from __future__ import annotations

import pytest

from core.files import SecretsWrong, secret_lines

ONE, OTHER = "whsec_0123456789abcdef", "fedcba9876543210_cesw"
PEM = "-----BEGIN PUBLIC KEY-----\nMFkwEwYHKoZI\nzj0CAQYIKoZI\n-----END PUBLIC KEY-----"


@pytest.mark.parametrize(
    ("text", "secrets"),
    [
        (ONE, (ONE,)),
        (f"{ONE}\n", (ONE,)),
        (f"{ONE}\r\n{OTHER}\r\n", (ONE, OTHER)),
        (f"{PEM}\n", (PEM,)),
        (f"{ONE}\n{PEM}\n{OTHER}\n", (ONE, PEM, OTHER)),
    ],
)
def test_each_line_and_each_pem_block_is_a_secret(text: str, secrets: tuple[str, ...]) -> None:
    assert secret_lines(text) == secrets


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1 is empty"),
        ("\n", "line 1 is empty"),
        (f"{ONE}\n\n{OTHER}\n", "line 2 is empty"),
        (f"{ONE}\n\n", "line 2 is empty"),
        (f"# the new one\n{ONE}\n", "line 1 is a comment"),
        (f"{ONE} # the new one\n", "line 1 holds a blank"),
        (f"{ONE} {OTHER}\n", "line 1 holds a blank"),
        (f"{ONE}\t\n", "line 1 holds a blank"),
        (f" {ONE}\n", "line 1 holds a blank"),
        (f"\ufeff{ONE}\n", "isn't ASCII"),
        (f"{ONE}é\n", "isn't ASCII"),
        ("changeme\n", "line 1 is too weak"),
        (f"{ONE}\n{'a' * 40}\n", "line 2 is too weak"),
        (PEM.removesuffix("-----END PUBLIC KEY-----"), "PEM block has no end"),
    ],
)
def test_anything_else_is_refused_by_its_line(text: str, problem: str) -> None:
    with pytest.raises(SecretsWrong, match=problem) as refused:
        secret_lines(text)
    assert ONE not in str(refused.value)
