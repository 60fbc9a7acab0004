"""The experiments of The Power of Both Choices (ICDE 2015), section V."""
