"""``python -m api``: the same as the `quarterline` command."""

from api.cli import main

main()
