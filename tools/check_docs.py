"""Check README and docs: relative links lead somewhere, Python blocks are valid Python."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["anchors", "pages", "problems"]

_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#+ +(.+)$", re.MULTILINE)


def pages(root: Path) -> list[Path]:
    """Return the Markdown files that people read."""
    return [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]


def anchors(text: str) -> set[str]:
    """Return the anchors that the headings of a page make.

    Parameters
    ----------
    text
        The page, Markdown.
    """
    words = (re.sub(r"[^\w\- ]", "", h.lower()) for h in _HEADING.findall(_FENCE.sub("", text)))
    return {heading.strip().replace(" ", "-") for heading in words}


def problems(root: Path) -> Iterator[str]:
    """Yield one sentence per dead link and per block that does not parse.

    Parameters
    ----------
    root
        The repository's folder.
    """
    for page in pages(root):
        text = page.read_text(encoding="utf-8")
        name = page.relative_to(root)
        for link in _LINK.findall(_FENCE.sub("", text)):
            yield from _link_problems(root, page, link)
        for language, block in _FENCE.findall(text):
            if language == "python" and ">>>" not in block:
                try:
                    compile(block, str(name), "exec")
                except SyntaxError as error:
                    yield f"{name}: a python block does not parse: {error}"


def _link_problems(root: Path, page: Path, link: str) -> Iterator[str]:
    if re.match(r"[a-z]+:", link):
        return
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    where = f"{page.relative_to(root)}: the link {link}"
    if not target.exists():
        yield f"{where} leads to nothing."
    elif not target.is_relative_to(root):
        yield f"{where} leads out of the repository."
    elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
        yield f"{where} names a heading that is not there."


if __name__ == "__main__":
    root = Path(__file__).resolve().parents[1]
    found = list(problems(root))
    for problem in found:
        print(problem, file=sys.stderr)
    print(f"docs: {len(pages(root))} pages, {len(found)} problems")
    sys.exit(bool(found))
