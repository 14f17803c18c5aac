"""The unified objective against dense arithmetic, and its settings against the forms in which they were published."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from exhume.architectures import NETWORKS, describe_network, initial_parameters
from exhume.attacks.gradient_matching.objective import GradientMatch, Level, Switches, labels_for
from exhume.attacks.gradient_matching.published import KKT, KKT_MULTICLASS, NTK
from exhume.attacks.span.problem import Point
from exhume.attacks.span.trained_network import learned, network_problem
from exhume.knowledge import Facts
from exhume.release import Release

CPU = torch.device("cpu")
SHAPE = (1, 8, 8)


def release_of(name: str, *, outputs: int = 2, last_layer: int = 60) -> Release:
    spec = describe_network(name, SHAPE, outputs=outputs, last_layer=last_layer)
    start, end = (initial_parameters(spec, seed=seed, dtype=torch.float64) for seed in (0, 1))
    trained = {key: start[key] + 0.1 * end[key] for key in start}
    facts = Facts(n=3, input_range=(-1.0, 2.0))
    return Release(trained["head.weight"] - start["head.weight"], spec, facts, trained, start)


def rows(m: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(m, 64, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def dense_gradients(release: Release, names: list[str], X: torch.Tensor) -> torch.Tensor:
    """The gradient of every output at every row over the named parameters, (m, k, P), at the trained weights."""
    module = release.network.module(release.trained)
    for parameter in module.parameters():
        parameter.requires_grad_()
    parts = dict(module.named_parameters())
    outputs = module(X.reshape(-1, *SHAPE))
    return torch.stack(
        [
            torch.stack(
                [
                    torch.cat([g.flatten() for g in torch.autograd.grad(f, [parts[n] for n in names], retain_graph=True)])
                    for f in row
                ]
            )
            for row in outputs
        ]
    )


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("point", ["trained", "initial", "midpoint"])
def test_duals_eliminated_over_the_last_layer_give_the_first_papers_loss(name: str, point: str) -> None:
    release = release_of(name)
    span = network_problem(release, learned(release), point=point, device=CPU, nuisance=False)
    match = GradientMatch(release, Switches(point=point), labels=None, device=CPU)
    X = rows(3)
    state = span.state(Point(X))
    loss, gradient = match.evaluate({"X": X}, Level())
    assert loss == pytest.approx(state.loss, rel=1e-8)
    assert torch.allclose(gradient["X"], -2 * state.gradient, atol=1e-8)


def test_a_mismatch_is_that_of_dense_gradients() -> None:
    release = release_of("two-layer")
    switches = Switches("all", target="weights", duals="free")
    match = GradientMatch(release, switches, labels=None, device=CPU)
    X, duals = rows(3), torch.rand(3, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    names = list(release.trained)
    G = dense_gradients(release, names, X)
    target = torch.cat([release.trained[name].flatten() for name in names])
    expected = target - torch.einsum("mk,mkp->p", duals, G) / 3
    loss, _ = match.evaluate({"X": X, "duals": duals}, Level())
    assert loss == pytest.approx(float(expected @ expected / (target @ target)))
    best = torch.linalg.lstsq(G.reshape(6, -1).T / 3, target[:, None]).solution.reshape(3, 2)
    assert torch.allclose(match.best_duals(X, Level()), best, atol=1e-8)


@pytest.mark.parametrize("attack", [KKT, KKT_MULTICLASS, NTK], ids=lambda attack: attack.name)
def test_gradients_are_those_of_the_objective(attack: object) -> None:
    """Central differences in x and in the duals, smoothed ReLU and prior included."""
    release = release_of("two-layer", outputs=1 if attack is KKT else 3)
    switches = attack.switches  # type: ignore[attr-defined]
    # A ReLU that is smooth only in derivatives has no value to difference: use the smooth one for all.
    switches = replace(switches, relu="softplus")
    m = 4
    match = GradientMatch(release, switches, labels=labels_for(switches, m, release.k, CPU), device=CPU)
    level = Level(sharpness=3.0, least_dual=0.4)
    draw = torch.Generator().manual_seed(2)
    columns = release.k if switches.outputs == "each" else 1
    at = {"X": rows(m), "duals": torch.rand(m, columns, generator=draw, dtype=torch.float64)}

    def total(unknowns: dict[str, torch.Tensor]) -> float:
        value = match._mismatch(unknowns["X"], unknowns["duals"], level) + match._prior(unknowns["X"], unknowns["duals"], level)
        return float(value.detach())

    _, gradient = match.evaluate(at, level)
    for name, value in at.items():
        direction = torch.randn(value.shape, generator=draw, dtype=torch.float64)
        ends = [total(at | {name: value + sign * 1e-6 * direction}) for sign in (1, -1)]
        assert float((gradient[name] * direction).sum()) == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)


def test_a_smooth_slope_leaves_the_value_alone() -> None:
    """Haim et al.: ReLU forward, sigmoid(s z) backward."""
    release = release_of("two-layer", outputs=1)
    X = rows(2)
    forms = {
        relu: GradientMatch(release, replace(KKT.switches, relu=relu), labels=labels_for(KKT.switches, 2, 1, CPU), device=CPU)
        for relu in ("exact", "sigmoid")
    }
    level = Level(sharpness=5.0)
    scores = {relu: form._scores(X, form._leaves(), level) for relu, form in forms.items()}
    assert torch.equal(scores["exact"], scores["sigmoid"])
    theta = forms["sigmoid"]._leaves()
    total = forms["sigmoid"]._scores(X, theta, level).sum()
    (got,) = torch.autograd.grad(total, [theta["first.weight"]])
    Z = X @ theta["first.weight"].T
    expected = ((torch.tensor([[1.0], [-1.0]]) * theta["head.weight"]) * torch.sigmoid(5.0 * Z)).T @ X
    assert torch.allclose(got, expected, atol=1e-9)


def test_candidates_get_balanced_labels() -> None:
    assert labels_for(KKT.switches, 4, 1, CPU).tolist() == [1, -1, 1, -1]  # type: ignore[union-attr]
    assert labels_for(KKT_MULTICLASS.switches, 5, 3, CPU).tolist() == [0, 1, 2, 0, 1]  # type: ignore[union-attr]
    assert labels_for(NTK.switches, 4, 1, CPU) is None
