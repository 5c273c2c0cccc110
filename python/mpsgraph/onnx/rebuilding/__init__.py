"""Rebuilding of a graph: as exported, from its description in the file, and under assumptions about sizes."""
