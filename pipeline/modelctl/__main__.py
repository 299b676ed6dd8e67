"""`modelctl` and `python -m modelctl`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with its status."""
    # No installed package has a say in how policies and reports are read, and none has to be looked for at each start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from modelctl.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
