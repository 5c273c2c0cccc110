"""Complete example programs on real data, which `mpsgraph demo NAME` runs."""
