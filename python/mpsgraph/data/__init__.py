"""Data for training: shuffled batches that can be resumed, readers of files, and the digits of the demo.

A dataset is a pair of arrays of one length, inputs and labels, which `batches` takes; sequences of different lengths,
for `bucketed`; or anything with samples by number, which `loaded` reads ahead with workers: memory maps, `hdf5` files,
`columns` of tables, images of an `image_folder`, `windows` of a text. Readers read files that the user has; nothing is
downloaded.
"""

from .batches import Batches, Dataset, batches
from .buckets import Buckets, bucketed
from .files import DataError, read_cifar10, read_idx, read_mnist
from .handwritten import digits
from .images import ImageFolder, image_folder
from .loader import Loader, loaded
from .stored import HDF5, Columns, columns, hdf5
from .texts import Windows, tokenized, windows

__all__ = [
    "HDF5",
    "Batches",
    "Buckets",
    "Columns",
    "DataError",
    "Dataset",
    "ImageFolder",
    "Loader",
    "Windows",
    "batches",
    "bucketed",
    "columns",
    "digits",
    "hdf5",
    "image_folder",
    "loaded",
    "read_cifar10",
    "read_idx",
    "read_mnist",
    "tokenized",
    "windows",
]
