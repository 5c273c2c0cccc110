"""Complete programs on real data, small enough to read. They are run by `mpsgraph demo <name>`."""
