"""Rows per second on Spark, ours and Spark's in turns."""
