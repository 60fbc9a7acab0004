"""The experiments of Dalton (PVLDB 2022), section 5."""
