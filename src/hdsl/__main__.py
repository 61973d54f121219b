"""``python -m hdsl`` and the ``hdsl`` script."""

import sys


def main() -> None:
    """Run the command line, and end the process with its exit code."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:  # while the libraries are loaded
        sys.exit(130)
    sys.exit(run())


if __name__ == "__main__":
    main()
