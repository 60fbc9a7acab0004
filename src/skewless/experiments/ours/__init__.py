"""Experiments of our own: against lower bounds, at scale, under drift."""
