"""Jobs of users: manifests from options and scripts, live output, and views in Slurm's terms."""
