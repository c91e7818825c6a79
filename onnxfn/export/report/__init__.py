"""`report.json`: written, read, verified, published."""
