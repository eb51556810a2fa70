"""
The drain: lease a refetch, fetch the live object, apply it, and settle who asked, in one transaction.

No transaction is held across the network. A read that may be too early is applied and read again; an absence that is
only inferred is read twice; a provider that answers nobody is paused, and nobody's attempts are counted meanwhile.
"""

from reconciler.drain.draining import Drain
from reconciler.drain.drifting import is_in_flight, what_drifted
from reconciler.drain.looking import Looked

__all__ = ["Drain", "Looked", "is_in_flight", "what_drifted"]
