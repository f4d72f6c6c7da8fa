"""Kafka's records as items."""

import json

from hypothesis import example, given
from hypothesis import strategies as st

from processor.decide.records import HEADER_TEXT_MAX, header_text
from processor.judge.classify import MESSAGE_CHARS_MAX, clean

TEXTS = st.one_of(st.text(max_size=40), st.text(alphabet='ab"\\/~\x7f\x00\n', max_size=40), st.just("x" * 3_000))


def canonical(headers: dict[str, str]) -> str:
    """What is wanted, said in the plainest way."""
    kept: dict[str, str] = {}
    size = 0
    for name in sorted(headers):
        size += len(name) + len(headers[name]) + 6
        if size > HEADER_TEXT_MAX:
            break
        kept[name] = clean(headers[name], MESSAGE_CHARS_MAX)
    return json.dumps(kept, separators=(",", ":"), ensure_ascii=True)


@given(headers=st.dictionaries(st.one_of(st.text(max_size=20), st.sampled_from(("ce_id", "mode", "zone"))), TEXTS))
@example({"ce_id": "evt_1", "mode": "live", "account": 'a"b\\c'})
@example({})
def test_headers_are_kept_as_canonical_json_whatever_is_in_them(headers: dict[str, str]):
    assert header_text(headers) == canonical(headers)
