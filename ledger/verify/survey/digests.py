"""What a set of keys comes to, in whatever order they are met: two sets that differ in anything differ in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

SALT_BYTES = 32
"""Drawn for each verification: nobody can prepare an index that comes to what another one does."""


@dataclass(frozen=True, slots=True)
class KeyDigest:
    """How many, and their hashes' sum and exclusive or."""

    count: int = 0
    sum: int = 0
    xor: int = 0

    def __add__(self, other: KeyDigest) -> KeyDigest:
        return KeyDigest(self.count + other.count, (self.sum + other.sum) & _ALL, self.xor ^ other.xor)

    def __sub__(self, other: KeyDigest) -> KeyDigest:
        return KeyDigest(self.count - other.count, (self.sum - other.sum) & _ALL, self.xor ^ other.xor)


def key_digest(hashes: np.ndarray, values: np.ndarray, versions: np.ndarray, salt: bytes) -> KeyDigest:
    """
    :param hashes: two numbers a key
    :param values: what is held of it, as a number
    :param versions: and which version of that
    """
    if len(hashes) == 0:
        return KeyDigest()
    salts = np.frombuffer(salt, "<u8")
    found = np.zeros(len(hashes), "u8")
    for part, by in zip((hashes[:, 0], hashes[:, 1], values, versions), salts, strict=True):
        found = _mixed((found ^ part.astype("u8")) + by)
    return KeyDigest(len(hashes), int(np.add.reduce(found)), int(np.bitwise_xor.reduce(found)))


def together(digests: Iterable[KeyDigest]) -> KeyDigest:
    return sum(digests, KeyDigest())


def _mixed(numbers: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: np.ndarray = numbers ^ (numbers >> np.uint64(31))
    return mixed


_ALL = (1 << 64) - 1
