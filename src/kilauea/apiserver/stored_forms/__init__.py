"""Kinds that are served in another form than they are stored in, such as older versions: both ways between forms."""
