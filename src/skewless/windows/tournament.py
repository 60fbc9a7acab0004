"""The best of n changing values in O(log n) a change: a tournament tree of winners.

Node 1 of the tree is the final; the players of node j are the winners of nodes 2 j and 2 j + 1, and
node ``width + i`` is player i, where the width is a power of two. Of equal values the favourite wins,
then the player with the lowest number. The tree keeps numbers only, so a value that falls without
losing a contest needs no work.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from skewless.kernel import inline_kernel, lean_kernel

__all__ = ["play", "play_all", "runner_up", "width_for"]


def width_for(n_players: int) -> int:
    """Return the length of the tree for `n_players`.

    Examples
    --------
    >>> width_for(1), width_for(64), width_for(65)
    (1, 64, 128)
    """
    return 1 << (n_players - 1).bit_length()


@inline_kernel
def _contest(
    value: NDArray[np.float64], winner: NDArray[np.int32], node: int, favourite: int
) -> int:
    width, n_players = len(winner), len(value)
    if 2 * node >= width:
        left, right = min(2 * node - width, n_players - 1), 2 * node + 1 - width
    else:
        left, right = np.int64(winner[2 * node]), np.int64(winner[2 * node + 1])
    if right >= n_players:  # nobody is there: the last player stands in
        return left
    wins = value[right] > value[left] or (value[right] == value[left] and right == favourite)
    return right if wins else left


@lean_kernel
def play(
    value: NDArray[np.float64], winner: NDArray[np.int32], player: int, favourite: int
) -> None:
    """Repeat the contests that the changed value of `player` can decide."""
    node = (player + len(winner)) >> 1
    while node >= 1:
        now = _contest(value, winner, node, favourite)
        if now == winner[node] and now != player:
            return
        winner[node] = now
        node >>= 1


@lean_kernel
def play_all(value: NDArray[np.float64], winner: NDArray[np.int32], favourite: int) -> None:
    """Play every contest."""
    for node in range(len(winner) - 1, 0, -1):
        winner[node] = _contest(value, winner, node, favourite)


@lean_kernel
def runner_up(value: NDArray[np.float64], winner: NDArray[np.int32], lowest: float) -> float:
    """Return the highest value but the champion's: the best of those that lost to it."""
    second = lowest
    champion = np.int64(winner[1])
    node = champion + len(winner)
    while node > 1:
        rival = node ^ 1
        player = rival - len(winner) if rival >= len(winner) else np.int64(winner[rival])
        if player < len(value) and player != champion:
            second = max(second, value[player])
        node >>= 1
    return second
