"""Generators by their definitions, in plain Python: SplitMix64 and the inverse of the distribution."""

from __future__ import annotations

import bisect
import itertools
import math

WORD = 2**64 - 1
GAMMA = 0x9E3779B97F4A7C15
LANE = 0xD1B54A32D192ED03


def mixed(word):
    z = (word + GAMMA) & WORD
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & WORD
    return z ^ (z >> 31)


def units(n, seed, lane=0):
    start = mixed(seed ^ (lane * LANE & WORD))
    return [(mixed((start + i * GAMMA) & WORD) >> 11) * 2.0**-53 for i in range(1, n + 1)]


def name(rank, seed):
    return mixed((rank + mixed(seed ^ 0x5DEECE66D)) & WORD)


def inverse(unit, weights):
    upto = list(itertools.accumulate(weights))
    return min(bisect.bisect_right(upto, unit * upto[-1]), len(weights) - 1)


def zipf_weights(n_keys, exponent):
    return [float(r) ** -exponent for r in range(1, n_keys + 1)]


def zipf_ranks(n, n_keys, exponent, seed):
    if exponent == 0:
        return [int(u * n_keys) for u in units(n, seed)]
    weights = zipf_weights(n_keys, exponent)
    return [inverse(u, weights) for u in units(n, seed)]


def renamed(n, n_keys, exponent, period, seed):
    drawn = zipf_ranks(n, n_keys, exponent, seed)
    return [name(i // period * n_keys + rank, seed) for i, rank in enumerate(drawn)]


def alternating(n, n_keys, exponent, period, seed):
    even, odd = zipf_ranks(n, n_keys, 0, seed), zipf_ranks(n, n_keys, exponent, seed)
    return [name((odd if i // period % 2 else even)[i], seed) for i in range(n)]


def redrawn(n, n_keys, period, low, high, seed):
    draws = units(n, seed)
    exponents = [low + (high - low) * u for u in units(-(-n // period), seed, 1)]
    keys = []
    for i, draw in enumerate(draws):
        turn = i // period
        order = units(n_keys, seed, 2 + turn)
        ranked = sorted(range(n_keys), key=order.__getitem__)
        weights = zipf_weights(n_keys, exponents[turn])
        keys.append(name(ranked[inverse(draw, weights)], seed))
    return keys


def log_normal_numbers(n, mu, sigma, seed):
    pairs = zip(units(n, seed), units(n, seed, 1), strict=True)
    return [
        round(math.exp(mu + sigma * math.sqrt(-2 * math.log1p(-u)) * math.cos(2 * math.pi * v)))
        for u, v in pairs
    ]


def rounded_log_normal_shares(mu, sigma, upto):
    def below(x):
        return 0.5 * (1 + math.erf((math.log(x) - mu) / sigma / math.sqrt(2))) if x > 0 else 0.0

    return [below(k + 0.5) - below(k - 0.5) for k in range(upto)]
