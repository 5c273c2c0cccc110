"""Data for training: shuffled batches that can be resumed, readers of files, and the digits of the demo.

A dataset here is a pair of arrays of one length, inputs and labels. Readers read files that the user has; nothing is
downloaded.
"""

from .batches import Batches, Dataset, batches
from .buckets import Buckets, bucketed
from .files import DataError, read_cifar10, read_idx, read_mnist
from .handwritten import digits

__all__ = ["Batches", "Buckets", "DataError", "Dataset", "batches", "bucketed", "digits", "read_cifar10", "read_idx", "read_mnist"]
