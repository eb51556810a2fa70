"""
`reconcile demo`: the main job on this machine, against a stand-in that behaves badly, with real processes.

Objects change at the provider while deliveries are lost, doubled, reordered and late; the daemon is killed and started
again; rows are edited by hand. Then two sweeps, and both sides are compared object by object.
"""

from reconciler.demo.show import main

__all__ = ["main"]
