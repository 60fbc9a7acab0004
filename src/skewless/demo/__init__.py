"""The demo: words of the State of the Union addresses, counted and linked while the policy learns."""
