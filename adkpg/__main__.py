"""``python -m adkpg`` is ``adkpg``."""

from adkpg.cli import main

if __name__ == "__main__":
    main(prog_name="adkpg")
