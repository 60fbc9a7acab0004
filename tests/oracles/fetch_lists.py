"""Fetch lists of hosts by definition."""

from __future__ import annotations


def answer(rows, limit, delay_ms):
    hosts = {}
    for _, key, columns in rows:
        pages = hosts.setdefault(key, {})
        url, depth = columns["url"], columns["depth"]
        if url is not None and depth is not None:
            pages.setdefault(url, []).append(depth)
    found = []
    for key, pages in sorted(hosts.items()):
        order = sorted(pages, key=lambda url: (min(pages[url]), -len(pages[url]), url))[:limit]
        found.append(
            {"key": key, "n": len(pages), "pages": order, "took_ms": len(order) * delay_ms}
        )
    return found
