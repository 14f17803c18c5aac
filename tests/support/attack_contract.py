"""What every attack must keep. The contract suite runs these on all that are registered."""

from __future__ import annotations

import dataclasses
import itertools
from functools import cache
from pathlib import Path

import pytest
import torch

from exhume.attacks import ATTACKS, Attack, Progress, Resources, attack_named, settings_of
from exhume.errors import ExhumeError
from exhume.knowledge import Knowledge
from exhume.release import Release
from exhume.result import Reconstruction, Status, load_reconstruction, save_reconstruction
from exhume.victims import NetworkVictim
from support.problems import small_sphere, trained


def quick(name: str) -> Attack:
    """The attack, with few steps where it descends, and one start where each goes through all of training."""
    settings: dict[str, int] = {"max_steps": 400} if "max_steps" in settings_of(name) else {}
    return attack_named(name, **(settings | ({"starts": 1} if name == "replay" else {})))


# Share of the usual parameters that an attack is given where it needs fewer of them: these read all weights.
_SHARE = {"first-layer": 0.08, "replay": 0.05}


@cache
def release_for(name: str, *, n: int = 5, ratio: float = 6) -> Release:
    """The first of a few small releases that the attack takes."""
    data = small_sphere(d=20, n=n)
    makers = [lambda: trained(data, ratio=ratio)]
    p = round(_SHARE.get(name, 1.0) * ratio * 20 * n)
    makers += [lambda k=k: NetworkVictim("two-layer", p, k=k, max_steps=5000).train(data).release for k in (2, 1)]
    known = Knowledge(recipe=True)
    makers += [lambda: NetworkVictim("mlp", p, widths=(p,), activation="tanh", epochs=8, knowledge=known).train(data).release]
    return next(release for make in makers if ATTACKS[name].refusal(release := make()) is None)


def is_a_frozen_record(name: str) -> None:
    one = quick(name)
    assert dataclasses.is_dataclass(one)
    assert all(isinstance(getattr(one, words), str) and getattr(one, words) for words in ("name", "about", "needs"))
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.name = "other"
    with pytest.raises(ExhumeError, match="does not take --no-such-setting"):
        attack_named(name, no_such_setting=1)


def says_whether_it_applies(name: str) -> None:
    one, release = quick(name), release_for(name)
    assert one.refusal(release) is None
    assert all(proposal.why for proposal in one.proposals(release))
    for other in (release_for("gauss-newton"), release_for("kkt"), release_for("kkt-multiclass")):
        reason = one.refusal(other)
        if reason is not None:
            with pytest.raises(ExhumeError) as error:
                one.run(other)
            assert str(error.value) == reason


def gives_the_same_rows_for_a_seed_and_reports_progress(name: str) -> None:
    seen: list[Progress] = []
    release = release_for(name)
    first = quick(name).run(release, seed=1, watch=seen.append)
    again = quick(name).run(release, seed=1)
    assert torch.equal(first.rows, again.rows)
    assert seen
    assert all(b.passes >= a.passes for a, b in itertools.pairwise(seen))
    assert all(now.X.shape == (now.rows, release.d) for now in seen)
    assert seen[-1].loss == pytest.approx(first.curve.loss[-1])


def ends_in_the_same_rows_when_interrupted(name: str, folder: Path) -> None:
    release = release_for(name)
    whole = quick(name).run(release, seed=2)
    resources = Resources(checkpoint=folder / "run.ckpt")
    stops, often = 0, 2 if name == "first-layer" else 3  # first-layer has few steps, each of many candidates

    def stop(now: Progress) -> None:
        nonlocal stops
        stops += 1
        if stops % often == 0:
            raise KeyboardInterrupt

    for _ in range(200):
        try:
            resumed = quick(name).run(release, seed=2, watch=stop, resources=resources)
            break
        except KeyboardInterrupt:
            assert (folder / "run.ckpt").exists()
    assert stops > often
    torch.testing.assert_close(resumed.rows, whole.rows, rtol=1e-12, atol=1e-12)  # sums may round by where memory lies
    assert resumed.curve.loss == pytest.approx(whole.curve.loss)
    assert not (folder / "run.ckpt").exists()


def refuses_the_checkpoint_of_another_run(name: str, folder: Path) -> None:
    release, resources = release_for(name), Resources(checkpoint=folder / "run.ckpt")

    def stop(_: Progress) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        quick(name).run(release, seed=0, watch=stop, resources=resources)
    with pytest.raises(ExhumeError, match="belongs to another run"):
        quick(name).run(release, seed=1, resources=resources)


def stops_when_its_work_is_spent(name: str) -> None:
    whole = quick(name).run(release_for(name))
    if len(whole.curve.passes) < 3:
        return
    half = quick(name).run(release_for(name), resources=Resources(most_passes=whole.curve.passes[len(whole.curve.passes) // 2] - 1))
    assert half.status is Status.STALLED
    assert "stopped after" in half.reason
    assert half.passes <= whole.passes
    assert half.rows.shape[1] == release_for(name).d


def survives_a_file(name: str, folder: Path) -> None:
    guess = quick(name).run(release_for(name), seed=0)
    save_reconstruction(guess, folder / "guess.safetensors")
    back = load_reconstruction(str(folder / "guess.safetensors"))
    assert torch.equal(back.rows, guess.rows)
    for field in dataclasses.fields(Reconstruction):
        if field.name != "rows":
            assert getattr(back, field.name) == getattr(guess, field.name)


def never_certifies_too_few_equations(name: str, ratio: float) -> None:
    guess = quick(name).run(release_for(name, n=8, ratio=ratio), seed=0)
    assert guess.status in (Status.STALLED, Status.UNCERTIFIED)
    assert guess.reason
