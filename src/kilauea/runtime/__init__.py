"""The shell around the core: files, clocks and everything else that is not pure. Only this room builds things."""
