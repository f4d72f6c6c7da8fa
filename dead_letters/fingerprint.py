"""Tells which errors have one cause, by an error's class, code, place, and message without what differs from event to
event.

A message is masked from its clearest parts to its least clear ones. What has a digit in it is taken for an id or a
number, because words of a message have none; numbers that say what went wrong (``HTTP 503``, ``errno 111``) stay.
Quoted text is data, so it goes too, except in errors that quote names of the code itself. What a person must fix
stays: the account, the host, the field that a message names (`_NAMED`, `_REACHED`).

Fingerprints are kept in the index's file: a change here that gives an error another one is a change of
`dead_letters.file.LAYOUT` too, which has every such file made again. A test binds the two.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

SHAPE_CHARS_MAX = 300
READ_CHARS_MAX = 1_000
"""Characters of a message that are read: the rest is data, and masking takes time for each character."""
_HEX_CHARS = 16
WORD_CHARS_MAX = 8
"""Letters alone that are fewer are never an id."""

CODE_NAMING = frozenset(
    {
        *("KeyError", "AttributeError", "NameError", "UnboundLocalError", "TypeError"),
        *("ImportError", "ModuleNotFoundError"),
    }
)
"""Errors of Python that quote a name of the code: another name is another bug."""

_URL = re.compile(r"\b([a-z][a-z0-9+.-]{1,15})://([^\s/?#'\"<>]+)[^\s'\"<>]*", re.IGNORECASE)
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}")
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_TIME = re.compile(
    r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z| ?[+-]\d\d:?\d\d| UTC)?)?", re.IGNORECASE
)
_QUOTED = re.compile(r"(?<!\w)'[^'\n]*'(?!\w)|(?<!\w)\"[^\"\n]*\"(?!\w)|`[^`\n]*`|“[^”\n]*”|«[^»\n]*»")
_QUOTED_BYTES = re.compile(r"\bb(?='[^'\n]*'(?!\w)|\"[^\"\n]*\"(?!\w))")
_CODE_NAME = re.compile(r"[A-Za-z_][A-Za-z_.\[\]()]{0,60}")
_OWNERS = ("account", "merchant", "tenant", "subscriber")
"""Each has its own fix, whatever its name is made of."""
_FIXABLE = (
    *("host", "hostname", "server", "endpoint", "field", "column", "relation", "constraint", "parameter", "argument"),
    *("property", "attribute", "header", "setting", "option", "file", "folder", "directory", "path", "module", "table"),
    *("topic", "bucket", "currency", "method", "type"),
)
"""Other things that a message names and a person fixes. Numbers and times in their names still go."""
_BEFORE = r"(?:ids?|names?)?\s?[:=]?\s?(?:named |called )?"
_IN_QUOTES = r"'[^'\n]{1,80}'(?!\w)|\"[^\"\n]{1,80}\"(?!\w)|`[^`\n]{1,80}`"
_NAMED = re.compile(
    rf"\b(?P<noun>{'|'.join((*_OWNERS, *_FIXABLE))})s?\b ?{_BEFORE}(?P<name>{_IN_QUOTES}|[^\s,;:=()\[\]{{}}<>'\"`]+)"
    rf"|(?P<quoted>{_IN_QUOTES})(?= (?:is a required|{'|'.join(_FIXABLE)})\b)",
    re.IGNORECASE,
)
_REACHED = re.compile(
    r"\b(?:connect(?:ing|ed|ion)? (?:to|with)|resolv(?:e|ing)|reach(?:ing)?|refused by) "
    r"(?P<name>(?:[a-z0-9_-]{1,63}\.){1,8}[a-z0-9_-]{1,63})",
    re.IGNORECASE,
)
_STATUS = re.compile(
    r"\b(HTTP(?:/\d(?:\.\d)?)?|status(?: code)?|error code|code|errno|sqlstate|exit(?: code| status)?)"
    r"(\s*[:=]?\s*[\[(]?\s*)(\d{1,5})\b",
    re.IGNORECASE,
)
_KEY = re.compile(r"(?<![^\s,;()\[\]{}<>])[^\s:,;()\[\]{}<>]+(?::[^\s:,;()\[\]{}<>]+){2,}")
_TOKEN = re.compile(r"[\w][\w.:~/+=%$€£@#&*|\\^-]*|[-+][\w][\w.:]*")
_NUMBER = re.compile(r"[-+$€£]?\d+(?:[.,:/_]\d+)*(?:%|[a-zA-Zµ]{1,3})?")
_HEX = re.compile(r"(?:0x)?[0-9a-f]{8,}", re.IGNORECASE)
_PREFIXED = re.compile(r"[a-z]{2,8}[_-]([A-Za-z]{8,})")
_RANDOM = re.compile(r"[A-Za-z+/=_-]{16,}")
_SWITCH = re.compile(r"[a-z](?=[A-Z])|[A-Z](?=[a-z])")
_QUOTE = re.compile("['\"`“«]")
_DIGIT, _DIGITS = re.compile(r"\d"), re.compile(r"\d{4}")
_LONG_NUMBER = re.compile(r"\d{4,}")
_KEPT = "\x01"
"""Stands for a name that stays, while the rest is masked."""
_MASKED = re.compile(r"<[a-z]+>")
_REPEATED = re.compile(r"(<[a-z]+>)(?:(?:, ?| and | or | ?[|;] ?| )\1)+")
_FRAME = re.compile(r'^  (?:\| )*File "([^"\n]+)", line \d+, in ([^\n]+)$', re.MULTILINE)
_FOREIGN = re.compile(r"site-packages|dist-packages|/lib/python|<frozen|<string>|/pyspark/|\\lib\\")
_TRACEBACK = "Traceback (most recent call last):"
_SWITCHES_SHARE = 0.27
"""Changes of case as a share of a text's letters: words in CamelCase have fewer, random ones more."""


@dataclass(frozen=True, slots=True)
class ErrorCause:
    """The cause of all errors with one fingerprint. ``shape``: the message with ``<id>`` and the like in it.

    ``place``: file and function of the innermost frame that isn't a library's; None where there is no stack.
    """

    fingerprint: str
    error_class: str
    error_code: str | None
    shape: str
    place: str | None


def cause_of(error_class: str, error_code: str | None, message: str | None, stack: str | None) -> ErrorCause:
    shape = shape_of(message or "", names_code=error_class in CODE_NAMING)
    place = place_of(stack) if stack else None
    return _make_cause(error_class, error_code, shape, place)


def shape_of(message: str, *, names_code: bool = False) -> str:
    text = " ".join(message[:READ_CHARS_MAX].replace(_KEPT, " ").split())
    if "://" in text:
        text = _URL.sub(r"<url \2>", text)
    if "@" in text:
        text = _EMAIL.sub("<email>", text)
    text, names = _take_names(text)
    if _QUOTE.search(text):
        text = _QUOTED.sub(_code_name if names_code else "<text>", _QUOTED_BYTES.sub("", text))
    if _DIGITS.search(text):
        text = _TIME.sub("<time>", _UUID.sub("<id>", text))
    text = _outside_of_masks(text, _mask_words)
    text = re.sub(_KEPT, lambda _: next(names, ""), text)
    return _REPEATED.sub(r"\1", text)[:SHAPE_CHARS_MAX]


def place_of(stack: str) -> str | None:
    frames = _FRAME.findall(stack, max(stack.rfind(_TRACEBACK), 0))
    own_frames = [frame for frame in frames if not _FOREIGN.search(frame[0])]
    if not (own_frames or frames):
        return None
    path, function = (own_frames or frames)[-1]
    return f"{'/'.join(path.replace(chr(92), '/').split('/')[-2:])}:{function}"


@lru_cache(maxsize=4_096)
def _make_cause(error_class: str, error_code: str | None, shape: str, place: str | None) -> ErrorCause:
    parts = (error_class, error_code or "", shape, place or "")
    digest = hashlib.sha256("\x1f".join(parts).encode("utf-8", "replace")).hexdigest()
    return ErrorCause(digest[:_HEX_CHARS], error_class, error_code, shape, place)


def _take_names(text: str) -> tuple[str, Iterator[str]]:
    names: list[tuple[int, int, str]] = []
    for match in _NAMED.finditer(text):
        group = "quoted" if match["name"] is None else "name"
        if (name := _name_kept(match[group], (match["noun"] or "").lower())) is not None:
            names.append((*match.span(group), name))
    for match in _REACHED.finditer(text):
        if not any(start <= match.start("name") < end for start, end, _ in names):
            names.append((*match.span("name"), match["name"]))
    parts, at = [], 0
    for start, end, _ in sorted(names):
        parts += [text[at:start], _KEPT]
        at = end
    return "".join([*parts, text[at:]]), iter([name for _, _, name in sorted(names)])


def _name_kept(name: str, noun: str) -> str | None:
    is_quoted = _QUOTE.match(name) is not None
    if not is_quoted and not _DIGIT.search(name):
        return None
    if noun in _OWNERS:
        return name.rstrip(".")
    if not is_quoted and (_NUMBER.fullmatch(name) or _HEX.fullmatch(name)):
        return None
    return _LONG_NUMBER.sub("<n>", _TIME.sub("<time>", _UUID.sub("<id>", name)))


def _code_name(match: re.Match[str]) -> str:
    inner = match[0][1:-1]
    return f"'{inner}'" if _CODE_NAME.fullmatch(inner) else "<text>"


def _outside_of_masks(text: str, mask: Callable[[str], str]) -> str:
    parts, at = [], 0
    for match in re.finditer(r"<(?:url [^>]*|[a-z]+)>", text):
        parts += [mask(text[at : match.start()]), match[0]]
        at = match.end()
    return "".join([*parts, mask(text[at:])])


def _mask_words(text: str) -> str:
    kept: list[str] = []

    def keep(match: re.Match[str]) -> str:
        kept.append(match[3])
        return f"{match[1]}{match[2]}\x00"

    text = _STATUS.sub(keep, text)
    if ":" in text:
        text = _KEY.sub("<key>", text)
    text = "".join(
        part if _MASKED.fullmatch(part) else _TOKEN.sub(_mask_word, part) for part in re.split(r"(<key>)", text)
    )
    numbers = iter(kept)
    return re.sub("\x00", lambda _: next(numbers, ""), text)


def _mask_word(match: re.Match[str]) -> str:
    if len(match[0]) < WORD_CHARS_MAX and match[0].isalpha():
        return match[0]
    word = match[0].rstrip(".:/=-|")
    rest = match[0][len(word) :]
    if _NUMBER.fullmatch(word):
        return "<n>" + rest
    if _DIGIT.search(word) or _is_random(word):
        return "<id>" + rest
    return match[0]


def _is_random(word: str) -> bool:
    """Tells whether a word is an id without a digit: hex, ``cus_QwErTyUiOp``, or long with many changes of case."""
    if prefixed := _PREFIXED.fullmatch(word):
        return _SWITCH.search(prefixed[1]) is not None
    if not _RANDOM.fullmatch(word):
        return bool(_HEX.fullmatch(word))
    return len(_SWITCH.findall(word)) > _SWITCHES_SHARE * len(word)
