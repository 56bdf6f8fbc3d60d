"""What commands share: options, where output goes, progress, signals, exit codes."""
