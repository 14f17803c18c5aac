"""Networks trained to interpolation by full-batch gradient descent, with a step that the tangent kernel allows."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.func import functional_call, jvp, vjp

from exhume.checkpoint import Checkpoint
from exhume.data import Dataset
from exhume.errors import ExhumeError
from exhume.features.networks import build_network, describe_network, initial_parameters
from exhume.release import Facts, NetworkSpec, Release
from exhume.victims.pruning import check_prune, prune_by_magnitude
from exhume.victims.random_features import Trained, note_duplicates
from exhume.victims.targets import check_loss, classes_of, one_hot, signs_of

Parameters = dict[str, torch.Tensor]
# Mean loss at which training stops: interpolation for the square loss, every label fitted with a margin for the others.
TARGETS = {"square": 1e-12, "logistic": 1e-2, "cross-entropy": 1e-2}
# Appendix D's own schedule: step size and number of steps.
PAPER_STEPS = {"square": 1e-5, "logistic": 1e-3, "cross-entropy": 1e-3}
_PAPER_COUNT = 1_000_000
_POWER_ROUNDS = 12
# Share of the largest stable step 2 / (lambda_max curvature).
_CAUTION = 0.5
# Where the loss flattens as labels are fitted the step follows, and the kernel is measured anew after this many steps.
_MEASURE_EVERY = 100
_REPORT_EVERY = 50
SPECTRUM = 16


@dataclass(frozen=True)
class NetworkVictim:
    """A network of Section 5.2 or Appendix D/E, trained on all of its data at once."""

    architecture: str
    last_layer: int  # p_L: parameters of the last layer, all outputs together
    k: int = 1
    loss: str = "square"
    weight_decay: float = 0.0
    prune: float = 0.0  # share of the last layer's features that magnitude pruning removes after training
    init_scale: float = 1.0  # factor on the first layer's initial weights; small ones make training rich (Haim et al.)
    train_to: float | None = None  # mean loss at which training stops; None: TARGETS
    schedule: str = "fast"  # "fast": the largest safe step; "paper": Appendix D's step size and 10^6 steps
    max_steps: int = 20_000
    seed: int = 0
    dtype: torch.dtype = torch.float64
    know_n: bool = False
    know_labels: bool = True
    know_norm: bool = True
    know_init: str = "all"  # "all", "last" (the paper's attacker) or "none"


def train_network(
    victim: NetworkVictim,
    dataset: Dataset,
    *,
    device: str = "cpu",
    report: Callable[[int, float], None] = lambda step, loss: None,
    checkpoint: Path | None = None,  # written while training; an existing one is resumed
) -> Trained:
    """Train to interpolation (or Appendix D's schedule); the release is what the attacker is told, the rest stays here."""
    _check(victim)
    spec = describe_network(victim.architecture, dataset.shape, outputs=victim.k, last_layer=victim.last_layer)
    start = {k: v.to(device) for k, v in initial_parameters(spec, seed=victim.seed, dtype=victim.dtype).items()}
    start["first.weight"] = start["first.weight"] * victim.init_scale
    module = build_network(spec, start)
    X = dataset.rows.to(device, victim.dtype).reshape(dataset.n, *dataset.shape)
    targets = _targets(victim, dataset).to(device)

    def outputs(parameters: Parameters) -> torch.Tensor:
        return functional_call(module, parameters, (X,))

    digest = hashlib.sha256(X.cpu().contiguous().numpy().tobytes() + targets.cpu().contiguous().numpy().tobytes()).hexdigest()
    keeper = Checkpoint(checkpoint, {"victim": {k: str(v) for k, v in vars(victim).items()}, "data": digest})
    try:
        trained, loss, steps = _descend(victim, outputs, targets, start, report, keeper)
    except KeyboardInterrupt:
        keeper.flush()
        raise
    keeper.clear()
    release = _release(victim, spec, dataset, start, trained)
    return Trained(release, note_duplicates(dataset), loss, _course(module, X, start, trained) | {"train_steps": steps})


def _check(victim: NetworkVictim) -> None:
    check_loss(victim.loss, victim.k)
    if victim.last_layer < 1:
        raise ExhumeError(f"the last layer needs at least 1 parameter, got {victim.last_layer}.")
    if not 0 <= victim.weight_decay < float("inf"):
        raise ExhumeError(f"weight decay must not be negative or infinite, got {victim.weight_decay}.")
    check_prune(victim.prune)
    if not 0 < victim.init_scale < float("inf"):
        raise ExhumeError(f"--init-scale must be positive, got {victim.init_scale}.")
    if victim.train_to is not None and not 0 < victim.train_to < float("inf"):
        raise ExhumeError(f"--train-to must be a positive loss, got {victim.train_to}.")
    if victim.know_init not in ("all", "last", "none"):
        raise ExhumeError(f"--know-init must be all, last or none, got {victim.know_init!r}.")


def _targets(victim: NetworkVictim, dataset: Dataset) -> torch.Tensor:
    if victim.loss == "logistic":
        return signs_of(dataset)[:, None].to(victim.dtype)
    if victim.k == 1:
        return dataset.labels[:, None].to(victim.dtype)
    return one_hot(classes_of(dataset, victim.k), victim.k).to(victim.dtype)


def loss_of(name: str, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The training loss summed over samples: ||f - y||^2 / 2, log(1 + e^(-y f)), or -log softmax(f)_y."""
    if name == "square":
        return ((outputs - targets) ** 2).sum() / 2
    if name == "logistic":
        return torch.nn.functional.softplus(-targets * outputs).sum()
    return -(targets * torch.log_softmax(outputs, dim=1)).sum()


def _descend(
    victim: NetworkVictim,
    outputs: Callable[[Parameters], torch.Tensor],
    targets: torch.Tensor,
    start: Parameters,
    report: Callable[[int, float], None],
    keeper: Checkpoint,
) -> tuple[Parameters, float, int]:
    """theta <- (1 - eta lambda) theta - eta gradient, all samples at once: the change stays in the features' span."""
    paper = victim.schedule == "paper"
    limit, target = (_PAPER_COUNT, 0.0) if paper else (victim.max_steps, victim.train_to or TARGETS[victim.loss])
    now = {name: value.clone().requires_grad_() for name, value in start.items()}
    names = list(now)
    best, step, mean = float("inf"), 0, float("inf")
    safe = PAPER_STEPS[victim.loss]
    resumed = keeper.load()
    if resumed is not None:
        now = {name: resumed[0][name].to(value.device).requires_grad_() for name, value in start.items()}
        step, best, safe = resumed[1]["step"], resumed[1]["best"], resumed[1]["safe"]
    while step < limit:
        output = outputs(now)
        loss = loss_of(victim.loss, output, targets)
        mean = float(loss.detach()) / len(targets)
        if mean <= target or not mean < float("inf"):
            break
        if not paper and _time_to_measure(victim.loss, step):
            safe = safe_step(outputs, {name: value.detach() for name, value in now.items()}, targets)
        if not paper and mean > 2 * best:  # the kernel has grown: go on with a smaller step
            safe /= 2
        best = min(best, mean)
        step_size = safe if paper else safe / _flatness(victim.loss, output.detach(), targets)
        gradients = torch.autograd.grad(loss, [now[name] for name in names])
        with torch.no_grad():
            for name, gradient in zip(names, gradients, strict=True):
                now[name].mul_(1 - step_size * victim.weight_decay).sub_(gradient, alpha=step_size)
        step += 1
        if step % _REPORT_EVERY == 0:
            keeper.save({name: value.detach().clone() for name, value in now.items()}, {"step": step, "best": best, "safe": safe})
            report(step, mean)
    if not mean < float("inf"):
        raise ExhumeError("training diverged. Lower the learning rate or check the data's scale.")
    return {name: value.detach() for name, value in now.items()}, mean, step


def _time_to_measure(loss: str, step: int) -> bool:
    """The square loss keeps the kernel of its start; the others go far: measure at 0, 1, 2, 4, 8 and so on."""
    return step == 0 or (loss != "square" and (step % _MEASURE_EVERY == 0 or step & (step - 1) == 0))


def _flatness(loss: str, outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """The largest curvature of the loss in an output: 1, or at most min(r, 1/4) (min(2 r, 1/2)) at a residual r."""
    if loss == "square":
        return 1.0
    if loss == "logistic":
        return min(float(torch.sigmoid(-targets * outputs).max()), 0.25)
    return min(2 * float((1 - (targets * torch.softmax(outputs, dim=1)).sum(1)).max()), 0.5)


def safe_step(outputs: Callable[[Parameters], torch.Tensor], start: Parameters, targets: torch.Tensor) -> float:
    """A share of 2 / lambda_max of the tangent kernel J J^T, found by power iteration with one vjp and one jvp per round."""
    vector = torch.randn(targets.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(targets)
    size = 1.0
    for _ in range(_POWER_ROUNDS):
        vector = vector / vector.norm()
        (back,) = vjp(outputs, start)[1](vector)
        vector = jvp(outputs, (start,), (back,))[1].detach()
        size = float(vector.norm())
    return _CAUTION * 2 / size


def _course(
    module: torch.nn.Module, X: torch.Tensor, start: Parameters, trained: Parameters
) -> dict[str, float | tuple[float, ...]]:
    """How far training moved the features and the first layer, and the spectrum of that move."""
    body = {name: value for name, value in start.items() if name != "head.weight"}
    seen: list[torch.Tensor] = []
    handle = module.head.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].detach()))  # type: ignore[union-attr]
    with torch.no_grad():
        functional_call(module, start, (X,))
        functional_call(module, trained, (X,))
    handle.remove()
    change = {name: trained[name] - value for name, value in body.items()}
    first = change["first.weight"].flatten(1).double()
    spectrum = torch.linalg.svdvals(first)
    return {
        "feature_drift": float((seen[1] - seen[0]).norm() / seen[0].norm()),
        "first_layer_change": float(first.norm() / start["first.weight"].double().norm()),
        "first_layer_spectrum": tuple((spectrum / spectrum[0].clamp(min=1e-300))[:SPECTRUM].tolist()),
    }


def _release(victim: NetworkVictim, spec: NetworkSpec, dataset: Dataset, start: Parameters, trained: Parameters) -> Release:
    trained = dict(trained)
    if victim.prune:
        trained["head.weight"] = prune_by_magnitude(trained["head.weight"], victim.prune)
    known = {"all": start, "last": {"head.weight": start["head.weight"]}, "none": {}}[victim.know_init]
    change = trained["head.weight"] - known.get("head.weight", torch.zeros(()).to(trained["head.weight"]))
    one_hot_targets = victim.loss == "square" and victim.k > 1
    facts = Facts(
        n=dataset.n if victim.know_n else None,
        input_norm=dataset.input_norm if victim.know_norm else None,
        input_range=dataset.input_range if victim.know_norm else None,
        label_size=dataset.label_size if victim.know_labels and victim.loss == "square" and victim.k == 1 else None,
        ridge=victim.weight_decay,
        one_hot=one_hot_targets and victim.know_labels,
        pruned=victim.prune > 0,
    )
    cpu = {name: value.cpu() for name, value in trained.items()}
    return Release(change.cpu(), spec, facts, cpu, {name: value.cpu() for name, value in known.items()})
