"""Placement of gangs on nodes of the whole cluster or of one network domain."""
