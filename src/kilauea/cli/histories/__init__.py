"""What the commands about the past share: where they read a history, times in options, and tables."""
