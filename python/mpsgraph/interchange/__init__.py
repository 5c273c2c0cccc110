"""Code shared by the ONNX, Core ML, PyTorch, and JAX frontends, independent of any one format.

A format has a registry of translation functions (`registry`), which receive a view of a node (`node_view`). Names that
mean the same in a format and in the graph are rows of one table (`renames`), for import and for export. Windows of
convolutions and pooling, recurrent layers, and activations are stated once (`windows`, `recurrent`, `activations`), and
each format converts its attributes into and out of them.

Importers (`importer`) evaluate tensors while a graph is being built (`known_values`), defer a build until the inputs
are known (`data_dependent`, `deferred_build`), and call translations that users supply (`custom_operators`). Exporters
(`export`) find the operations to export, and report in one error every operation that the target format cannot express.
`node_list` imports and exports simple formats, which need only a reader and tables.
"""
