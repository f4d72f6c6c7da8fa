"""Bookings that somebody wants taken back: what there is to reverse, and the proposals that wait for another person."""

from ledger.reversals.bookings import Booking, NotReversible, bookings_of
from ledger.reversals.proposals import ProposalUnknown, Proposed, proposal, proposals

__all__ = ["Booking", "NotReversible", "ProposalUnknown", "Proposed", "bookings_of", "proposal", "proposals"]
