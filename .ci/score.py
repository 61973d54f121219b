"""Check the score of a mutation run: ``score.py STATISTICS LEAST``.

Exit code 1 when fewer than LEAST percent of the mutants that ran are killed. A mutant that runs out
of time or crashes counts as killed, and one that no test reaches as alive.
"""

import json
import sys
from pathlib import Path


def main(path, least):
    """Print the score; return the exit code."""
    counts = json.loads(Path(path).read_text(encoding="utf-8"))
    killed = counts["killed"] + counts["timeout"] + counts["segfault"]
    tested = killed + counts["survived"] + counts["suspicious"] + counts["no_tests"]
    score = 100.0 * killed / max(tested, 1)
    print(f"{tested} mutants, {score:.1f} % killed; at least {least} % are expected.")
    return int(score < float(least))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
