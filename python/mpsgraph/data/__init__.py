"""Data for training: shuffled batches that can be resumed, file readers, and the digits dataset of the demo.

`batches` takes a dataset of arrays of equal length, such as inputs and labels; `bucketed` takes sequences of different
lengths; `loaded` takes any object that returns samples by index, such as memory maps, `hdf5` files, `columns` of
tables, images of an `image_folder`, or `windows` of a text, and reads samples ahead with workers. Readers read existing
files; nothing is downloaded.
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
