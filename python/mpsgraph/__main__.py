"""`python -m mpsgraph` is the `mpsgraph` command."""

import sys

from .cli import main

sys.exit(main())
