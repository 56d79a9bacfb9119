"""What the fleet taught, as text in the ledger: learned once a day, read by every later estimate.

The day's prior is written in the transaction of the instant that learned it. A restart reads it back, so that it
says after as it said before; a replay learns it anew from the same readings.
"""

from __future__ import annotations

from typing import Final

import msgspec

from analysis.prior import FleetPrior
from api.estimates import Estimates
from store.ports import Ledger

FLEET_PRIOR: Final = "fleet_prior"
_decoder = msgspec.json.Decoder(FleetPrior)


def refresh(estimates: Estimates, ledger: Ledger) -> None:
    """Learn the prior from today's state, use it and keep it; inside the transaction of its instant."""
    ledger.set_meta(FLEET_PRIOR, msgspec.json.encode(estimates.learn(), order="sorted").decode())


def recall(estimates: Estimates, ledger: Ledger) -> None:
    """Use the prior that was kept last; the start's where none was, or where it comes from another version."""
    kept = ledger.get_meta(FLEET_PRIOR)
    if kept is not None:
        try:
            estimates.expect(_decoder.decode(kept))
        except msgspec.DecodeError:
            return
