"""Check the score of a mutation run: ``score.py STATISTICS LEAST``.

Ends with 1 when fewer than LEAST percent of the mutants are killed. A mutant that runs out of time
counts as killed.
"""

import json
import sys
from pathlib import Path


def main(path, least):
    """Print the score; return the exit code."""
    counts = json.loads(Path(path).read_text(encoding="utf-8"))
    tested = counts["total"] - counts["skipped"]
    score = 100.0 * (counts["killed"] + counts["timeout"]) / max(tested, 1)
    print(f"{tested} mutants, {score:.1f} % killed; at least {least} % are expected.")
    return int(score < float(least))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
