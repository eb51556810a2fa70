"""A provider end to end, as the paths have it."""

from tests.paths.conftest import case_of, cases_database, emptied

__all__ = ["case_of", "cases_database", "emptied"]
