"""The command `kilauea` and its subcommands."""
