"""Objects as table rows for `kubectl get`: the columns of each kind, and their content."""
