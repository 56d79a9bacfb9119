"""Floor 1: the only room that speaks SQL."""

from store.sql import open_store

__all__ = ["open_store"]
