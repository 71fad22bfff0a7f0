"""Role-based access control: permissions, by the roles and bindings that are stored like any other object."""
