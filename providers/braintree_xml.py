"""Braintree's XML read strictly: no document type, no entities, UTF-8 only, a bounded depth.

Names come with ``-`` or ``_`` (both are seen in Braintree's own notifications); here they have ``-``. An element with
``nil="true"`` is as if it weren't there, like one that is empty.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import TypeAlias
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from core import strict_json
from core.errors import Unparseable

DEPTH_MAX = 32
"""Elements within elements; Braintree's notifications nest under 10."""

Plain: TypeAlias = list[object]


def parse_xml(xml: bytes) -> Element:
    """Parses the XML into its root element.

    :raises Unparseable: not such XML
    """
    try:
        # As text, so that a declared encoding can't have it read otherwise than by the next reader.
        root: Element = fromstring(xml.decode("utf-8"), forbid_dtd=True)
    except DefusedXmlException as forbidden:
        raise Unparseable("the XML has a document type or entities") from forbidden
    except (ParseError, ValueError, LookupError) as wrong:
        raise Unparseable(f"not XML in UTF-8 ({type(wrong).__name__})") from wrong
    _check_depth(root)
    return root


def name_of(element: Element) -> str:
    return element.tag.replace("_", "-")


def list_elements(parent: Element | None) -> list[Element]:
    """Lists the elements in one. An element without any is false, so none of them is asked whether it is true."""
    return [] if parent is None else list(parent)


def find_child(parent: Element | None, name: str) -> Element | None:
    """Finds the only child element of that name.

    :raises Unparseable: there are several, of which readers may take either
    """
    same_name = list(find_children(parent, name))
    if len(same_name) > 1:
        raise Unparseable(f"<{name}> comes several times")
    return same_name[0] if same_name and same_name[0].get("nil") != "true" else None


def find_children(parent: Element | None, name: str) -> Iterator[Element]:
    return (element for element in list_elements(parent) if name_of(element) == name)


def text_of(parent: Element | None, name: str) -> str | None:
    """Returns the text of the only child of that name, without the blanks around it; None where there is none.

    :raises Unparseable: there are several, or it holds elements
    """
    element = find_child(parent, name)
    if element is None:
        return None
    if len(element):
        raise Unparseable(f"<{name}> isn't a text")
    return (element.text or "").strip() or None


def hash_content(root: Element) -> str:
    """Hashes the content, in hex: elements, their attributes and texts, in order, without blanks around texts."""
    return hashlib.sha256(strict_json.dump_canonical_json(_to_plain(root))).hexdigest()


def _to_plain(element: Element) -> Plain:
    texts = [(element.text or "").strip(), *((part.tail or "").strip() for part in element)]
    return [element.tag, dict(element.attrib), [text for text in texts if text], [_to_plain(part) for part in element]]


def _check_depth(root: Element) -> None:
    level = [root]
    for _ in range(DEPTH_MAX):
        level = [below for element in level for below in element]
        if not level:
            return
    raise Unparseable(f"nested deeper than {DEPTH_MAX}")
