"""What two people book: bookings taken back, entries by hand, and the proposals that wait for another person."""

from ledger.reversals.bookings import Booking, NotReversible, bookings_of
from ledger.reversals.proposals import ProposalUnknown, Proposed, proposal, proposals

__all__ = ["Booking", "NotReversible", "ProposalUnknown", "Proposed", "bookings_of", "proposal", "proposals"]
