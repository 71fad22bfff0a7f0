"""What people type: `kilauea` and its subcommands."""
