"""Checks a built book: every internal link and anchor leads somewhere, and no page is long.

    check_book.py BOOK
"""

import os
import re
import sys
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

MAX_WORDS = 2_000
# Made by mdBook of the other pages.
SKIPPED = {"print.html", "toc.html", "404.html"}


class Page(HTMLParser):
    """The links, the anchors and the words of a page's text."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids, self.text, self.in_main = [], set(), [], False
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "main":
            self.in_main = True
        if "id" in attributes:
            self.ids.add(attributes["id"])
        link = attributes.get("href") or attributes.get("src")
        if link and self.in_main:
            self.links.append(link)

    def handle_endtag(self, tag):
        if tag == "main":
            self.in_main = False

    def handle_data(self, text):
        if self.in_main:
            self.text.append(text)

    def words(self):
        return sum(1 for word in " ".join(self.text).split() if re.search(r"\w", word))


def main(book):
    pages = {}
    for folder, _, names in os.walk(book):
        for name in names:
            path = os.path.normpath(os.path.join(folder, name))
            if name.endswith(".html") and name not in SKIPPED:
                pages[path] = Page(path)
    problems = []
    for path, page in sorted(pages.items()):
        shown = os.path.relpath(path, book)
        if page.words() > MAX_WORDS:
            problems.append(f"{shown}: {page.words()} words, more than {MAX_WORDS}")
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path
            if parts.path:
                target = os.path.join(os.path.dirname(path), unquote(parts.path))
                target = os.path.normpath(target)
            if not os.path.exists(target):
                problems.append(f"{shown}: {link} leads to no page")
            elif parts.fragment and unquote(parts.fragment) not in pages[target].ids:
                problems.append(f"{shown}: {link} leads to no heading")
    print("\n".join(problems))
    print(f"{len(pages)} pages, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
