"""The experiments of A Holistic View of Stream Partitioning Costs (PVLDB 2017), section 6."""
