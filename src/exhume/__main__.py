"""`python -m exhume`."""

from exhume.cli import main

main()
