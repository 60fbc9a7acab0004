"""Commands of the command line, one module each; `skewless.cli` names them."""
