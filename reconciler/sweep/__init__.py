"""
The sweep: list what changed (or everything), compare, repair, and say what drifted and why.

A run is complete only when every page of every kind it was asked for was seen and everything on them is applied or
read. The pages of a kind are listed in one thread and taken in another; what a page only hints at becomes refetches
that the run works off itself, daemon or not.
"""

from reconciler.sweep.asked import Asked, Progress
from reconciler.sweep.sweeping import Sweep

__all__ = ["Asked", "Progress", "Sweep"]
