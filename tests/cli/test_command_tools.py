"""What all commands share: the help page, bad input in one line, exit codes, progress and tables."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import torch
from click.testing import CliRunner

from exhume.attacks import Progress
from exhume.cli import command_tools as tools
from exhume.cli import main
from exhume.errors import ExhumeError
from support.command_line import exhume, exhume_process

SMALL = ["--data", "sphere", "--d", "20", "--n", "5", "--ratio", "6"]


def test_help_reads_like_a_page_and_is_quick() -> None:
    start = time.perf_counter()
    done = exhume_process("--help")
    assert done.returncode == 0
    assert "Exit codes" in done.stdout
    assert time.perf_counter() - start < 2  # torch is not imported (2.4 s)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["trial", "--data", "spher"], "Did you mean 'sphere'"),
        (["trial", "--activation", "rellu"], "Did you mean 'relu'"),
        (["trial", "--attack", "gauss-newtn"], "Did you mean 'gauss-newton'"),
        (["trial", "--victim", "rff"], "Did you mean 'rf'"),
        (["trail"], "Did you mean 'trial'"),
        (["trial", *SMALL, "--p", "3"], "cannot fit"),
        (["trial", *SMALL, "--ratio", "-1"], "--ratio must be a positive number"),
        (["trial", *SMALL, "--ratio", "nan"], "--ratio must be a positive number"),
        (["trial", *SMALL, "--ridge", "-1"], "ridge must not be negative"),
        (["trial", *SMALL, "--memory", "much"], "not a size"),
        (["trial", *SMALL, "--memory", "1kB"], "Raise --memory"),
        (["trial", *SMALL, "--device", "abacus"], "cannot be used here"),
        (["trial", *SMALL, "--rows", "0"], "rows must be at least 1"),
        (["trial", *SMALL, "--max-steps", "5"], "does not take --max-steps"),
        (["trial", "--data", "digits", "--d", "3"], "--data digits does not take --d"),
        (["trial", "--data", "wine", "--data-dir", "x"], "--data wine does not take --data-dir"),
        (["trial", *SMALL, "--k", "3"], "--victim rf does not take --k"),
        (["trial", *SMALL, "--victim", "two-layer", "--ridge", "1"], "--victim two-layer does not take --ridge"),
        (["reconstruct", "nothing.safetensors"], "is not a file"),
        (["law", "--d", "3", "--n", "3"], "give one of --p, --ratio and --widths"),
        (["law", "--p", "0", "--d", "3", "--n", "3"], "p must be at least 1"),
        (["activation", "tanj"], "Did you mean 'tanh'"),
        (["demo", "--out", "/proc/nowhere"], "cannot write"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], message: str, tmp_path: Path) -> None:
    done = exhume(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) <= 4  # click adds its usage lines
    assert not list(tmp_path.iterdir())


def test_bad_input_in_a_process_of_its_own(tmp_path: Path) -> None:
    done = exhume_process("reconstruct", "nothing.safetensors", cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "exhume: release nothing.safetensors is not a file. Check the path.\n"
    assert done.stdout == ""


def test_completion_is_offered() -> None:
    environment = os.environ | {"_EXHUME_COMPLETE": "bash_source"}
    code = "import sys; sys.argv[0] = 'exhume'; from exhume.cli import main; main(prog_name='exhume')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False)
    assert "_exhume_completion" in done.stdout


def test_every_command_is_listed_and_can_be_loaded() -> None:
    context = click.Context(main)
    names = main.list_commands(context)  # type: ignore[attr-defined]
    assert len(names) == len(set(names)) == 14
    listed = exhume("--help").stdout
    for name in names:
        command = main.get_command(context, name)  # type: ignore[attr-defined]
        assert command.name == name
        assert command.get_short_help_str(200) in " ".join(listed.split())
    assert main.get_command(context, "nothing") is None  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (ExhumeError("expected a, got b."), 2, "exhume: expected a, got b."),
        (OverflowError("too large"), 2, "exhume: the numbers overflowed (too large). Check --step-size and the data's scale."),
        (MemoryError(), 2, "exhume: out of memory. Lower --memory, --n, --d or --ratio."),
        (RuntimeError("CUDA out of memory"), 2, "exhume: out of memory. Lower --memory, --n, --d or --ratio."),
        (KeyboardInterrupt(), 130, "exhume: interrupted."),
    ],
)
def test_a_failure_is_one_line_and_an_exit_code(
    error: BaseException, code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    @tools.guarded
    def fail() -> None:
        raise error

    with pytest.raises(SystemExit) as end:
        fail()
    assert end.value.code == code
    assert capsys.readouterr().err == message + "\n"


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ({"checkpoint": Path("run.ckpt")}, " The same command goes on from run.ckpt."),
        ({"checkpoint": None}, " With --checkpoint FILE a run can go on."),
        ({"store": Path("lab")}, " The same command goes on from lab."),
        ({}, ""),
    ],
)
def test_an_interruption_says_how_to_go_on(options: dict, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    @tools.guarded
    def fail(**_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit):
        fail(**options)
    assert capsys.readouterr().err == f"exhume: interrupted.{hint}\n"


def test_a_defect_is_not_hidden() -> None:
    @tools.guarded
    def fail() -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        fail()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, "-"),
        (0.2, "0 s"),
        (59.4, "59 s"),
        (60.0, "1 min 0 s"),
        (95.2, "1 min 35 s"),
        (3599.0, "59 min 59 s"),
        (3600.0, "1 h 0 min"),
        (93_780.0, "26 h 3 min"),
    ],
)
def test_seconds_are_told_as_people_do(seconds: float | None, words: str) -> None:
    assert tools.human_seconds(seconds) == words


def step(number: int) -> Progress:
    return Progress("search", number, 1e-3, 4, 120, 95.0, None, torch.empty(0))


def test_a_log_has_a_line_every_ten_seconds(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    clock = [0.0]
    monkeypatch.setattr("exhume.cli.command_tools.time.monotonic", lambda: clock[0])
    with tools.progress(quiet=False) as watch:
        for number in range(25):
            clock[0] = float(number)
            watch(step(number))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert " ".join(lines[0].split()) == "search step 11 loss 1.0e-03 rows 4 passes 120 1 min 35 s left about -"
    assert "step 22" in lines[1]


def test_quiet_is_quiet(capsys: pytest.CaptureFixture[str]) -> None:
    with tools.progress(quiet=True) as watch:
        watch(step(0))
    assert capsys.readouterr() == ("", "")


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    tools.emit_json({"a": float("nan"), "b": [float("inf"), 1.5], "c": (1, None)})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [None, 1.5], "c": [1, None]}


def test_any_name_can_be_printed(capsys: pytest.CaptureFixture[str]) -> None:
    tools.print_table("a[/b]", [("report", "c[/d]")])
    out = capsys.readouterr().out
    assert "c[/d]" in out
    assert "a[/b]" in out


def test_options_are_applied_in_the_order_of_the_help_page() -> None:
    both: Callable[..., object] = tools.options(click.option("--first"), click.option("--second"))

    @click.command()
    @both
    def command(first: str, second: str) -> None:
        click.echo(f"{first} {second}")

    page = CliRunner().invoke(command, ["--help"]).output
    assert page.index("--first") < page.index("--second")
    assert CliRunner().invoke(command, ["--second", "b", "--first", "a"]).output == "a b\n"


def test_the_version_is_told() -> None:
    from exhume.version import __version__

    assert __version__ in exhume("--version").stdout
