"""`python3 tests/lab ...`: the folder is run as a program, and is the package `lab` to its own modules."""

import sys
from pathlib import Path

here = Path(__file__).resolve().parent
sys.path[:] = [str(here.parent), *(entry for entry in sys.path if Path(entry).resolve() != here)]

from lab.cli import main  # noqa: E402

sys.exit(main())
