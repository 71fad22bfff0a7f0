"""Role-based access control: who may do what, by the roles and bindings that are stored like any other object."""
