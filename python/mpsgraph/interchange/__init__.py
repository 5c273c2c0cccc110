"""What files of other formats have in common, ONNX's and Core ML's: values known while a graph is built, models that
are built when they run, sizes of which some are known, weights that train; and what leaves: the walk over a graph, and
the error that names all that a format has no word for.

No format is known here.
"""
