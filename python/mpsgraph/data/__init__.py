"""Data for training: shuffled batches that can be resumed, readers of files, and the digits of the demo.

A dataset is a pair of arrays of one length, inputs and labels, which `batches` takes; sequences of different lengths,
for `bucketed`; or anything with samples by number, which `loaded` reads ahead with workers. Readers read files that the
user has; nothing is downloaded.
"""

from .batches import Batches, Dataset, batches
from .buckets import Buckets, bucketed
from .files import DataError, read_cifar10, read_idx, read_mnist
from .handwritten import digits
from .loader import Loader, loaded

__all__ = [
    "Batches",
    "Buckets",
    "DataError",
    "Dataset",
    "Loader",
    "batches",
    "bucketed",
    "digits",
    "loaded",
    "read_cifar10",
    "read_idx",
    "read_mnist",
]
