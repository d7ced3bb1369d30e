"""`python -m callsheet`."""

from callsheet.cli import main

main()
