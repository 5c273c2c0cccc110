"""The operations of a graph, one file per MPSGraph category. `mpsgraph.Graph` inherits from every class here."""
