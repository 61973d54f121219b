"""``python -m hdsl`` and the ``hdsl`` script."""

import sys


def main() -> None:
    """Run the command line, or say what it needs."""
    try:
        from .cli import app
    except ModuleNotFoundError as error:
        if error.name != "typer":
            raise
        sys.exit("hdsl: the command line needs typer. Install it with: pip install 'hdsl[cli]'")
    app(prog_name="hdsl")


if __name__ == "__main__":
    main()
