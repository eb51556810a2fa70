"""What a query costs: an object one point, a connection two and each of its objects, a mutation ten."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from graphql import (
    FieldNode,
    FragmentSpreadNode,
    GraphQLInterfaceType,
    GraphQLObjectType,
    InlineFragmentNode,
    VariableNode,
    get_named_type,
    is_composite_type,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from graphql import (
        FragmentDefinitionNode,
        GraphQLSchema,
        OperationDefinitionNode,
        SelectionNode,
        SelectionSetNode,
    )

    from adapters.sandbox.world import JSON, Body

SINGLE_QUERY = 1000
"""The most that one query may cost, whatever the bucket holds."""

SECONDS = 20
"""A bucket holds what comes back in so many seconds."""

MUTATION = 10


class Bucket:
    """Points of one app in one shop; safe to use from several threads."""

    def __init__(self, ticks: Callable[[], float], *, restore: float) -> None:
        self._ticks = ticks
        self._lock = threading.Lock()
        self.set(restore=restore)

    def set(self, *, restore: float, maximum: float | None = None, left: float | None = None) -> None:
        """Begin anew: *left* points now (None: full) of *maximum*, *restore* more each second."""
        with self._lock:
            self.restore, self.maximum = restore, restore * SECONDS if maximum is None else maximum
            self._left = self.maximum if left is None else min(left, self.maximum)
            self._at = self._ticks()

    @property
    def left(self) -> int:
        """The whole points it holds now."""
        with self._lock:
            self._refill()
            return int(self._left)

    def take(self, points: int) -> bool:
        """Take *points*, or nothing and return False where it does not hold as many."""
        with self._lock:
            self._refill()
            if self._left < points:
                return False
            self._left -= points
            return True

    def give_back(self, points: int) -> None:
        """Return *points* that were not needed."""
        with self._lock:
            self._left = min(self.maximum, self._left + points)

    def status(self) -> Body:
        """Return its state as answers show it."""
        return {
            "maximumAvailable": int(self.maximum),
            "currentlyAvailable": self.left,
            "restoreRate": int(self.restore),
        }

    def _refill(self) -> None:
        now = self._ticks()
        self._left = min(self.maximum, self._left + (now - self._at) * self.restore)
        self._at = now


class Cost:
    """Counts the points of one operation, before it is executed and after."""

    def __init__(
        self,
        schema: GraphQLSchema,
        operation: OperationDefinitionNode,
        fragments: Mapping[str, FragmentDefinitionNode],
        variables: Mapping[str, JSON],
    ) -> None:
        self._schema = schema
        self._operation = operation
        self._fragments = fragments
        self._variables = variables

    @property
    def requested(self) -> int:
        """The most that the operation can cost."""
        root = self._schema.get_root_type(self._operation.operation)
        return self._base + self._selected(self._operation.selection_set, root)

    def actual(self, shown: JSON) -> int:
        """Return what it cost to answer with *shown*."""
        return self._base + sum(_points(value) for value in (shown or {}).values())

    @property
    def _base(self) -> int:
        return MUTATION if self._operation.operation.value == "mutation" else 0

    def _selected(self, selected: SelectionSetNode | None, parent: object) -> int:
        """Return the points of what is selected: all fields, and the dearest of the fragments for other types."""
        points, others = 0, [0]
        for each in selected.selections if selected is not None else ():
            if isinstance(each, FieldNode):
                points += self._field(each, parent)
                continue
            condition, inside = self._fragment(each)
            inner = self._selected(inside, self._schema.get_type(condition) if condition else parent)
            if condition in {None, getattr(parent, "name", None)}:
                points += inner
            else:
                others.append(inner)
        return points + max(others)

    def _fragment(self, node: SelectionNode) -> tuple[str | None, SelectionSetNode]:
        if isinstance(node, FragmentSpreadNode):
            named = self._fragments[node.name.value]
            return named.type_condition.name.value, named.selection_set
        if not isinstance(node, InlineFragmentNode):
            raise TypeError(f"no selection: {node!r}")
        return (node.type_condition.name.value if node.type_condition else None), node.selection_set

    def _field(self, node: FieldNode, parent: object) -> int:
        if not isinstance(parent, GraphQLObjectType | GraphQLInterfaceType) or node.name.value not in parent.fields:
            return 0
        type_ = parent.fields[node.name.value].type
        named = get_named_type(type_)
        if not is_composite_type(named):
            return 0
        if named.name.endswith("Connection"):
            return 2 + self._size(node) * self._of_each(node.selection_set, named)
        many = (self._size(node) or 1) if "[" in str(type_) else 1
        return many * (1 + self._selected(node.selection_set, named))

    def _of_each(self, selected: SelectionSetNode | None, parent: object) -> int:
        """Return the points of one object of a connection, whether asked for as a node or inside an edge."""
        points = 0
        for each in selected.selections if selected is not None else ():
            if not isinstance(each, FieldNode):
                points += self._of_each(self._fragment(each)[1], parent)
            elif each.name.value in {"nodes", "edges"} and isinstance(parent, GraphQLObjectType):
                inner = get_named_type(parent.fields[each.name.value].type)
                points += self._selected(each.selection_set, inner) + (each.name.value == "nodes")
        return points

    def _size(self, node: FieldNode) -> int:
        sizes = [each.value for each in node.arguments or () if each.name.value in {"first", "last"}]
        said = (
            self._variables.get(each.name.value) if isinstance(each, VariableNode) else getattr(each, "value", 0)
            for each in sizes
        )
        return max((int(each or 0) for each in said), default=0)


def _points(shown: JSON) -> int:
    if isinstance(shown, list):
        return sum(_points(each) for each in shown)
    if not isinstance(shown, dict):
        return 0
    own = 2 if shown.keys() <= _CONNECTION else 0 if shown.keys() <= _FREE else 1
    return own + sum(_points(each) for each in shown.values())


_CONNECTION = {"edges", "nodes", "pageInfo"}
_FREE = {"cursor", "node", "hasNextPage", "hasPreviousPage", "startCursor", "endCursor"}
