"""The experiments of Prompt (SIGMOD 2020), section 7."""
