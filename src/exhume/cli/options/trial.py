"""What is trained and attacked: options -> Trial."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from exhume.cli.command_tools import options
from exhume.cli.options.attack import attack_from
from exhume.cli.options.data import request_from
from exhume.cli.options.knowledge import knowledge_from, knowledge_options

if TYPE_CHECKING:
    from exhume.lab import Trial


def widths_of(context: click.Context, option: click.Parameter, given: str | None) -> tuple[int, ...]:
    """`512,256` as numbers."""
    try:
        return tuple(int(part) for part in given.split(",")) if given else ()
    except ValueError:
        raise click.BadParameter(f"expected numbers with commas between them, as in 512,256, got {given!r}.") from None


victim_options = options(
    click.option("--victim", default="rf", show_default=True, help="What is trained: rf, two-layer, mlp, resnet or vit."),
    click.option("--widths", callback=widths_of, help="mlp: units of each hidden layer, as in 512,256."),
    click.option("--bias", is_flag=True, help="mlp: give every layer a bias."),
    click.option(
        "--optimizer", default="gd", show_default=True, help="Networks: gd (to interpolation), sgd, momentum, adam or lbfgs."
    ),
    click.option("--batch", type=int, help="Networks: samples per step of sgd, momentum and adam (default: all)."),
    click.option("--lr", type=float, help="Networks: step size (gd: of the summed loss, found by itself if left out)."),
    click.option("--epochs", type=int, help="Networks: passes over the data (default: 100; gd: to interpolation)."),
    click.option("--loss", default="square", show_default=True, help="Training loss: square, logistic or cross-entropy."),
    click.option("--k", type=int, default=1, show_default=True, help="Outputs of a network: classes for k > 1."),
    click.option("--ratio", type=float, default=4.0, show_default=True, help="p / (d n), p the last layer's parameters."),
    click.option("--p", type=int, help="Parameters of the last layer, instead of --ratio."),
    click.option("--activation", default="relu", show_default=True, help="Activation; see `exhume activation`."),
    click.option("--ridge", type=float, default=0.0, show_default=True, help="Ridge penalty lambda (Eq. 169)."),
    click.option("--weight-decay", type=float, default=0.0, show_default=True, help="Networks: decay per unit of step size."),
    click.option("--prune", type=float, default=0.0, show_default=True, help="Share of last-layer features pruned (rf: by OBS)."),
    click.option("--init-scale", type=float, default=1.0, show_default=True, help="Networks: factor on the first layer's start."),
    click.option("--train-to", type=float, help="Networks: mean loss at which training stops (default: by loss)."),
    click.option("--paper-schedule", is_flag=True, help="Networks: Appendix D's step size and 10^6 steps (slow)."),
    click.option("--dtype", type=click.Choice(["auto", "float32", "float64"]), default="auto", show_default=True),
    click.option("--allow-underfit", is_flag=True, help="Train even with p < n, where labels cannot be fitted."),
    knowledge_options,
)

# Options that bear the name of the trial's field.
_SAME = (
    "victim",
    "loss",
    "k",
    "ratio",
    "p",
    "widths",
    "bias",
    "optimizer",
    "batch",
    "lr",
    "epochs",
    "activation",
    "ridge",
    "weight_decay",
    "prune",
    "init_scale",
    "train_to",
    "allow_underfit",
    "seed",
    "dtype",
)


def trial_from(given: dict[str, Any]) -> Trial:
    """Data, victim, the attacker's knowledge and, where the command has one, the attack."""
    from exhume.architectures import NETWORKS
    from exhume.attacks import GaussNewton
    from exhume.lab import Trial

    knowledge = knowledge_from(given)
    dense = given["victim"] in NETWORKS and NETWORKS[given["victim"]].dense_first and given["activation"] == "relu"
    known = knowledge.optimizer if given["optimizer"] == "adam" else knowledge.init == "all"

    # Ten outputs on CIFAR-10 mean its ten classes.
    source = "cifar10-multi" if given["source"] == "cifar10" and given["k"] > 2 else given["source"]
    return Trial(
        **{name: given[name] for name in _SAME},
        data=request_from(source, given),
        schedule="paper" if given["paper_schedule"] else "fast",
        knowledge=knowledge,
        attack=attack_from(given, first_layer=dense and known) if "attack" in given else GaussNewton(),
    )
