"""Nanoseconds per tuple, no Spark."""
