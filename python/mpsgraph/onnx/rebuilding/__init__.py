"""Rebuilding of the graph that mpsgraph exported, from its description in the file."""
