"""Checks that a policy is known to fail: (name, check, reason). A row whose check passes fails."""

from __future__ import annotations

SKIPS: tuple[tuple[str, int, str], ...] = ()
