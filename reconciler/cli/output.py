"""What a command shows: its result on stdout, as a table or as JSON, and everything else on stderr."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from io import StringIO
from typing import TYPE_CHECKING, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from reconciler import content

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TextIO

    from rich.progress import TaskID

    from reconciler.model import JSON

Cell: TypeAlias = object
"""What a cell holds: text, a number, a yes or no, or None for nothing."""

_EVERY = 10.0  # seconds between two plain lines of progress
_WIDE = 10_000  # columns of what is no terminal: nothing is cut off or wrapped
_WORDS = {True: "yes", False: "no", None: ""}


class Output:
    """Where one command writes."""

    def __init__(self, result: TextIO | None = None, aside: TextIO | None = None) -> None:
        self._result = sys.stdout if result is None else result
        self._aside = sys.stderr if aside is None else aside

    @property
    def aside(self) -> TextIO:
        """Where all goes that is not the result."""
        return self._aside

    @property
    def watched(self) -> bool:
        """Whether a person looks at what goes aside."""
        return self._aside.isatty()

    def json(self, tree: JSON) -> None:
        """Write the result as JSON, numbers as they were written."""
        self._result.write(content.dumps(tree) + "\n")
        self._result.flush()

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, title: str = "") -> None:
        """Write a part of the result as a table; a note aside where there is no row."""
        if title:
            self.line(title)
        table = Table(*columns, box=None, pad_edge=False, header_style="bold")
        for row in rows:
            table.add_row(*[Text(plain(cell)) for cell in row])
        self._print(table)
        if not rows:
            self.tell("(none)")

    def line(self, text: str) -> None:
        """Write one line of the result."""
        self._print(Text(plain(text)))

    def tell(self, sentence: str) -> None:
        """Say something beside the result."""
        self._aside.write(plain(sentence, keep="\n") + "\n")
        self._aside.flush()

    @contextmanager
    def progress(self) -> Iterator[Callable[[str, int, int], None]]:
        """Yield what to call with what is being done, how much is seen and how much is left."""
        if not self.watched:
            yield _Lines(self)
            return
        columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(file=self._aside), transient=True) as bar:
            task = bar.add_task("beginning", total=None)
            yield _Bar(bar, task)

    def _print(self, what: Table | Text) -> None:
        """Write *what*: fitted to a terminal, and elsewhere whole, in lines with nothing after their last word."""
        if self._result.isatty():
            Console(file=self._result, highlight=False).print(what)
            return
        whole = StringIO()
        Console(file=whole, width=_WIDE, highlight=False, force_terminal=False, color_system=None).print(
            what, soft_wrap=True
        )
        self._result.writelines(f"{line.rstrip()}\n" for line in whole.getvalue().splitlines())
        self._result.flush()


class _Bar:
    """Progress on a terminal."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar, self._task = bar, task

    def __call__(self, doing: str, seen: int, left: int) -> None:
        total = seen + left if doing == "reading" else None
        text = f"{doing}: {_counted(seen, left)}"
        self._bar.update(self._task, description=text, total=total, completed=seen)


class _Lines:
    """Progress where nobody looks at it now."""

    def __init__(self, output: Output) -> None:
        self._output, self._doing, self._next = output, "", 0.0

    def __call__(self, doing: str, seen: int, left: int) -> None:
        now = time.monotonic()
        if doing != self._doing or now >= self._next:
            self._output.tell(f"{doing}: {_counted(seen, left)}")
            self._doing, self._next = doing, now + _EVERY


def plain(cell: Cell, *, keep: str = "") -> str:
    """Return *cell* as text that cannot do anything to a terminal."""
    text = _WORDS[cell] if cell is None or isinstance(cell, bool) else str(cell)
    return "".join(one if one.isprintable() or one in keep else repr(one)[1:-1] for one in text)


def _counted(seen: int, left: int) -> str:
    return f"{seen} seen, {left} left to read" if left else f"{seen} seen"
