"""Imports of a model under assumptions about sizes that only a run could confirm."""

from __future__ import annotations

from collections.abc import Callable

from ...errors import Error
from ...interchange.data_dependent import DataDependent
from .importer import Assumptions, NodeImporter, is_nonsense


def build_assuming(importer: Callable[[Assumptions], NodeImporter]) -> NodeImporter:
    """Run an import that assumes, if this is safe, that all conditionally squeezed axes have size 1.

    An exported torch `squeeze` tests at run time whether an axis has size 1, so the rank of everything after it depends
    on that test. Usually only one of the two ranks is compatible with the nodes that follow. To find out, the model is
    first imported with all assumptions, and then once more for each assumption, with only this one reversed. The
    assumptions are kept if each of these further imports fails with a shape error; otherwise none is made. The first
    import finds most of these failures itself (`NodeImporter.necessary`). `importer` creates an Importer for a function
    that maps the index of an assumption, in node order, to its choice.

    Raises DataDependent if the model is also valid when such an axis is kept, and the errors of individual nodes.
    """
    first = importer(lambda number: True)
    try:
        made = first.built()
    except (Error, DataDependent):
        if first.assumed == 0:
            raise
        return importer(lambda number: None).built()
    for one in range(made.assumed):
        if one in made.necessary:
            continue
        try:
            importer(lambda number, left=one: number != left).built()  # type: ignore[misc]
        except (Error, DataDependent) as failure:
            if is_nonsense(failure):
                continue
        return importer(lambda number: None).built()
    return made
