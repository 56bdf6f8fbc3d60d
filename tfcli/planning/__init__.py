"""Training plans: what fits this corpus, this machine and the time there is, found out by a few real steps."""
