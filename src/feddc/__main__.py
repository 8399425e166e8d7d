"""``python -m feddc`` is the `feddc` command."""

from .cli import main

main()
