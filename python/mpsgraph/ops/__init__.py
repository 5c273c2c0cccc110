"""The operations of a graph, a file a family, in MPSGraph's families. `mpsgraph.Graph` inherits from all of them."""
