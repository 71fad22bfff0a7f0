"""Rules for the kinds of `resource.k8s.io`: claims, slices, classes and taints of devices."""
