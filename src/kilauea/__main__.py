"""`python -m kilauea` is the command `kilauea`."""

from kilauea.cli.main import main

if __name__ == "__main__":
    main()
