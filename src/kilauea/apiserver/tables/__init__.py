"""Objects as rows, as `kubectl get` shows them: the columns of each kind, and their content."""
