"""Races need what store tests need: several connections, and a sound database at the end."""

from tests.store.conftest import another, bare, db, pool

__all__ = ["another", "bare", "db", "pool"]
