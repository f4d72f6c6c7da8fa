"""Payment methods, and who settles what was paid by them: the provider, or whoever runs the method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from core.money import MovementUnknown


@dataclass(frozen=True)
class Methods:
    """The payment methods of one provider, each in one table. What is in neither is unknown.

    :ivar here: the provider settles them, by the page that lists them
    :ivar outside: the method's owner settles them, and the provider only tells of them; by method, the page with that
    :ivar field: what the provider calls the method, for the text of an unknown one
    """

    here: Mapping[str, frozenset[str]]
    outside: Mapping[str, str]
    field: str = "method"

    def __post_init__(self) -> None:
        for page, methods in self.here.items():
            assert not methods & self.outside.keys(), f"settled here by {page}, and outside"

    def is_outside(self, method: str) -> bool:
        """
        :raises MovementUnknown: the method is in no table
        """
        if method in self.outside:
            return True
        if not any(method in methods for methods in self.here.values()):
            raise MovementUnknown(self.field, method)
        return False
