"""Reports: one self-contained HTML page each; everything taken from data is escaped."""
