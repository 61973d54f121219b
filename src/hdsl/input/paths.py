"""What users give as the path of a file."""

import os

FilePath = str | os.PathLike[str]
