"""Check that every link inside the built pages leads somewhere: ``check_links.py FOLDER``.

Looks at all pages for href and src that stay in the folder, and asks for the file and, after a #,
for an element of that id. Links to other sites are not followed: no network is needed.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Page(HTMLParser):
    """The ids of a page, and where it points to."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links = set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("id", "name") and value:
                self.ids.add(value)
            elif name in ("href", "src") and value and tag != "base":
                self.links.add(value)


def broken(folder):
    """Return (page, link) of each link that leads nowhere, and the number of those checked."""
    folder = folder.resolve()
    paths = sorted(set(folder.rglob("*.html")) - set(folder.glob("_static/**/*.html")))
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in paths}
    wrong, n_links = [], 0
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
        sys.exit(f"{folder} has no index.html: build the pages first, with `make docs`.")
    wrong, n_links = broken(folder)
    for path, link in wrong:
        print(f"{path}: {link} leads nowhere", file=sys.stderr)
    if wrong:
        sys.exit(1)
    print(f"All {n_links} links inside the pages lead somewhere.")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
