"""Jobs of people: manifests from options and scripts, their output as it is written, and views in Slurm's words."""
