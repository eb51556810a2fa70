"""The cut-down schema, and what it knows of each type."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from graphql import GraphQLObjectType, build_schema

if TYPE_CHECKING:
    from graphql import GraphQLSchema


def admin_schema() -> GraphQLSchema:
    """Return the schema that queries are executed over."""
    text = files("adapters.sandbox.shopify").joinpath("schema.graphql").read_text("utf-8")
    return build_schema(text, assume_valid=True, assume_valid_sdl=True, no_location=True)


def field_names(schema: GraphQLSchema, type_: str) -> frozenset[str]:
    """Return the names of the fields of a type."""
    found = schema.get_type(type_)
    return frozenset(found.fields) if isinstance(found, GraphQLObjectType) else frozenset()
