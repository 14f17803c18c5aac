"""The command line: one file per command; each parses, calls, prints."""

from __future__ import annotations

import click

from exhume.cli.command_tools import Commands
from exhume.version import __version__

_EPILOG = """\b
Start here
  exhume demo                    rebuild pictures and patients' rows from weights, in under a minute
  exhume audit --help            can your own model be released? a verdict and a report
  exhume law --p 8000 --d 100 --n 20      what to expect, in seconds
  exhume trial --data digits --ratio 5    train, attack, score
  exhume reproduce fig3                   a figure of the paper, with our curve on it

\b
Exit codes
  0  done
  1  the attack did not succeed where --expect demanded it
  2  bad input (the message says what to do)
  3  an audit found that more samples can be rebuilt than --fail-above allows
  130  interrupted; with --checkpoint the same command goes on

\b
Results go to stdout, progress to stderr. --json prints one JSON object and nothing else.
Shell completion (bash): eval "$(_EXHUME_COMPLETE=bash_source exhume)"; likewise zsh_source, fish_source.
Use it on your own models, or on those that you may test.
"""


@click.command(cls=Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="exhume")
def main() -> None:
    """Rebuild a model's training data from its released weights, with proof of how sure we are.

    Once the last layer has more parameters p than d*n (input dimension times samples), the weights pin down every
    training sample. exhume finds them: signs, scale and number included.
    """
