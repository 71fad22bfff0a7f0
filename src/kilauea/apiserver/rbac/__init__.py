"""Role-based access control: permissions by roles and bindings, which are stored like other objects."""
