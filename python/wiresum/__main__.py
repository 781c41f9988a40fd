"""`python -m wiresum` is the command `wiresum`."""

from wiresum.cli import main

if __name__ == "__main__":
    main()
