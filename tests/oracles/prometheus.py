"""Prometheus' text format 0.0.4, read line by line as its page says."""

from __future__ import annotations

import re

_SAMPLE = re.compile(r"^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)')


def parse(text: str) -> dict[str, tuple[str, str, dict[tuple[tuple[str, str], ...], float]]]:
    """Return {family: (kind, help, {labels: value})}; raise ValueError where the text is wrong."""
    if not text.endswith("\n"):
        raise ValueError("the last line must end")
    families: dict[str, tuple[str, str, dict[tuple[tuple[str, str], ...], float]]] = {}
    helps: dict[str, str] = {}
    current = ""
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name, _, words = line[7:].partition(" ")
            if name in helps:
                raise ValueError(f"second HELP of {name}")
            helps[name] = words
        elif line.startswith("# TYPE "):
            name, _, kind = line[7:].partition(" ")
            if name in families or kind not in ("counter", "gauge"):
                raise ValueError(line)
            families[name] = kind, helps[name], {}
            current = name
        else:
            found = _SAMPLE.match(line)
            if found is None or found.group(1) != current:
                raise ValueError(f"no sample of {current}: {line}")
            inside, labels, at = found.group(2) or "", [], 0
            while at < len(inside):
                label = _LABEL.match(inside, at)
                if label is None:
                    raise ValueError(f"labels: {line}")
                value = re.sub(
                    r"\\(.)", lambda m: {"n": "\n"}.get(m.group(1), m.group(1)), label.group(2)
                )
                labels.append((label.group(1), value))
                at = label.end()
            key = tuple(labels)
            if key in families[current][2]:
                raise ValueError(f"twice: {line}")
            families[current][2][key] = float(found.group(3))
    return families
