"""`python -m fairpool`: the command `fairpool`."""

from __future__ import annotations

from fairpool.cli.main import main

if __name__ == "__main__":
    main(prog_name="fairpool")
