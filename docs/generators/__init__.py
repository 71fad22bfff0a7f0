"""Pages of the reference that are made from the code, one module each; `docs/generate_reference.py` writes them."""
