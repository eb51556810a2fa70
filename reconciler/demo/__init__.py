"""
`reconcile demo`: the main job on this machine, against stand-ins that behave badly, with real processes.

Objects change at three providers while deliveries are lost, doubled, reordered and late; the daemon is killed and
started again; rows are edited by hand. Then two sweeps, and both sides are compared object by object.
"""

from reconciler.demo.show import Size, main

__all__ = ["Size", "main"]
