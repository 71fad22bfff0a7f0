"""What commands read: files, configurations, extensions, a live cluster, and the pods that workloads become."""
