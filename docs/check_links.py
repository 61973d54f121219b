"""Check every link between the built pages: ``check_links.py FOLDER``.

For each href and src that stays in the folder, the file must exist and, after a #, an
element of that id. Links to other sites are not followed, so no network is needed.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The ids and the links of a page."""

    def __init__(self, text):
        super().__init__()
        self.ids = set()
        self.links = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name in ("href", "src") and value and tag != "base":
                self.links.add(value)


def broken(folder):
    """Return (page, link) of each broken link, and the number of links checked."""
    folder = folder.resolve()
    paths = sorted(set(folder.rglob("*.html")) - set(folder.glob("_static/**/*.html")))
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    wrong = []
    n_links = 0
    for path, page in pages.items():
        for link in sorted(page.links):
            url = urlsplit(link)
            if url.scheme or url.netloc:
                continue
            n_links += 1
            target = (path.parent / unquote(url.path)).resolve() if url.path else path
            fragment = unquote(url.fragment)
            there = target.is_file() and target.is_relative_to(folder)
            if there and fragment and target in pages:
                there = fragment in pages[target].ids
            if not there:
                wrong.append((path.relative_to(folder), link))
    return wrong, n_links


def main(folder):
    if not (folder / "index.html").is_file():
        sys.exit(
            f"{folder} has no index.html: build the pages first, with `make docs`."
        )
    wrong, n_links = broken(folder)
    for path, link in wrong:
        print(f"{path}: the target of {link} does not exist", file=sys.stderr)
    if wrong:
        sys.exit(1)
    print(f"All {n_links} links between the pages are valid.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
