"""The doctor: what tfcli runs on here, and what makes it slow."""
