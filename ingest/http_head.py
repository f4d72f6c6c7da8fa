"""The head of a request, judged as a whole before anything is done with it (RFC 9110, RFC 9112).

llhttp, the parser beneath, refuses what two readers could read differently: Content-Length beside Transfer-Encoding or
twice, bare CR and LF, folded lines, blanks before a colon, control characters. What it lets through is refused here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from httptools import HttpParserError, HttpParserInvalidMethodError

from ingest.errors import (
    Refused,
    head_too_large,
    malformed,
    target_too_long,
    unknown_coding,
    unknown_expectation,
    unknown_method,
    wrong_coding,
    wrong_host,
    wrong_target,
    wrong_version,
)

HEAD_BYTES_MAX = 16_384
"""Target and headers; a provider's are under 2 KB, what proxies add is less than that again."""
HEADERS_MAX = 100
TARGET_BYTES_MAX = 2_048
HEADER_OVERHEAD_BYTES = 4
"""Colon, blank, CR and LF."""

FORBIDDEN_TRAILERS = frozenset(
    b"authorization cache-control connection content-encoding content-length content-range content-type cookie expect "
    b"host if-match if-modified-since if-none-match if-range if-unmodified-since keep-alive max-forwards "
    b"proxy-authorization range te trailer transfer-encoding upgrade".split()
)
"""Framing, routing, authentication and what says how to read the body (RFC 9110, section 6.5.1)."""

JUDGED = frozenset({b"host", b"transfer-encoding", b"expect"})
"""The headers that `check_head` wants to see."""

_AUTHORITY = rb"(?:[A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?"
_HOST = re.compile(_AUTHORITY)
_ABSOLUTE = re.compile(rb"[Hh][Tt][Tt][Pp][Ss]?://" + _AUTHORITY + rb"(/[^?#]*)?(?:\?([^#]*))?")
_METHOD = re.compile(rb"[\r\n]*[!#$%&'*+.^_`|~0-9A-Za-z-]{1,32} [/*A-Za-z]")


def check_head(version: str, judged: Sequence[tuple[bytes, bytes]]) -> bool:
    """Whether the sender waits for ``100 Continue``.

    :param version: as in ``"1.1"``
    :param judged: the headers whose names are in `JUDGED`
    :raises Refused: 400, 417, 501 or 505
    """
    if version not in ("1.1", "1.0"):
        raise wrong_version()
    hosts = codings = 0
    expects = False
    for name, value in judged:
        value = value.strip(b" \t")
        if name == b"host":
            hosts += 1
            if not _HOST.fullmatch(value):
                raise wrong_host()
        elif name == b"expect":
            expects = _expects(value)
        else:
            codings += 1
            _check_coding(value)
    if hosts != 1 and (hosts or version == "1.1"):
        raise wrong_host()
    if codings and (codings > 1 or version == "1.0"):
        raise wrong_coding()
    return expects and version == "1.1"


def split_target(target: bytes) -> tuple[bytes, bytes]:
    """Path and query, both as sent.

    A target in absolute form is taken, as RFC 9112 wants it; nothing is routed by host, so its host says no more than
    the Host header.

    :raises Refused: 400 or 414
    """
    if len(target) > TARGET_BYTES_MAX:
        raise target_too_long(TARGET_BYTES_MAX)
    if target.startswith(b"/") and b"#" not in target:
        path, _, query = target.partition(b"?")
        return path, query
    if absolute := _ABSOLUTE.fullmatch(target):
        return absolute[1] or b"/", absolute[2] or b""
    raise wrong_target()


def check_size(target: bytes, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """
    :raises Refused: 431
    """
    size = len(target) + sum(len(name) + len(value) + HEADER_OVERHEAD_BYTES for name, value in headers)
    if size > HEAD_BYTES_MAX:
        raise head_too_large(HEAD_BYTES_MAX)


def refusal_of(error: HttpParserError, fed: bytes) -> Refused:
    """What the parser stumbled on, as an answer. ``fed``: the bytes it was reading."""
    if isinstance(error.__context__, Refused):
        return error.__context__
    if fed.startswith(b"PRI * HTTP/2") or str(error) == "Invalid HTTP version":
        return wrong_version()
    if isinstance(error, HttpParserInvalidMethodError) and _METHOD.match(fed):
        return unknown_method()
    return malformed(str(error))


def _expects(value: bytes) -> bool:
    if value.lower() != b"100-continue":
        raise unknown_expectation()
    return True


def _check_coding(value: bytes) -> None:
    codings = [coding.strip(b" \t").lower() for coding in value.split(b",")]
    if codings[-1] != b"chunked" or codings.count(b"chunked") > 1:
        raise wrong_coding()
    if len(codings) > 1:
        raise unknown_coding()
