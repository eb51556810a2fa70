"""Put the folders that the program reads at run time into the wheel; an editable install reads the checkout's."""

from __future__ import annotations

from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class Shipped(BuildHookInterface[Any]):
    """Maps each folder to its place in the wheel (reconciler.resources finds it there)."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the folders to every build but an editable one."""
        if version != "editable":
            for name in ("config", "migrations", "systemd"):
                build_data["force_include"][name] = f"reconciler/_shipped/{name}"
