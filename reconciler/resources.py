"""Where the folders are that ship beside the code."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

Shipped: TypeAlias = Literal["config", "migrations", "systemd"]


def folder(name: Shipped) -> Path:
    """Return the folder *name*, the installed copy or the one of the checkout this code runs from."""
    here = Path(__file__).resolve().parent
    installed = here / "_shipped" / name
    return installed if installed.is_dir() else here.parent / name
