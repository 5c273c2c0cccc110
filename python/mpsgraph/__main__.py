"""Entry point of `python -m mpsgraph`, which is the `mpsgraph` command."""

import sys

from .cli import main

sys.exit(main())
