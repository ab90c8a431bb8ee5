"""``python -m adkpg`` is ``adkpg``."""

from adkpg.tooling.cli import main

if __name__ == "__main__":
    main(prog_name="adkpg")
