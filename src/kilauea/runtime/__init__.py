"""The shell around the pure core: files, clocks, connections and processes. Only this package connects the parts."""
