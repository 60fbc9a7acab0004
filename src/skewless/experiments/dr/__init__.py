"""The experiments of Dynamic repartitioning (2021)."""
