"""The verbs of exhume in Python: each takes and returns frozen values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from exhume.attacks import Attack, Resources, Watch, attack_named, ignore
from exhume.auditing import Audit, AuditInputs, Ladder, Rung, run_audit, run_mitigations, subject_of
from exhume.auditing.audit_inputs import table_of
from exhume.auditing.run import WITHIN
from exhume.data import DataRequest, Dataset, load, load_dataset
from exhume.data.model_inputs import model_inputs
from exhume.knowledge import Knowledge
from exhume.prediction.expectation import Expectation, expect
from exhume.release import Release, load_release
from exhume.result import Reconstruction, load_reconstruction
from exhume.score import Score
from exhume.score.evaluate import COVERED
from exhume.score.evaluate import evaluate as score_of
from exhume.victims import Trained, Victim

Data = Any  # a Dataset, a DataRequest, (X, y) as arrays, tensors or data frames, or the path of a file or folder
Model = Any  # a torch.nn.Module, a fitted scikit-learn estimator, a state dict, or the path of a file


def dataset_of(data: Data) -> Dataset:
    """Data in any form as a `Dataset`; rows that are given as they are stay as they are (standardise them first).

    >>> dataset_of(([[1.0, 2.0], [0.0, 1.0]], [1, -1])).n
    2
    """
    if isinstance(data, Dataset):
        return data
    if isinstance(data, DataRequest):
        return load(data)
    if isinstance(data, str | Path) and Path(data).suffix == ".safetensors":
        return load_dataset(data)
    table = table_of(data, None)
    return model_inputs("data", table.X, table.y, columns=table.columns)


def train(victim: Victim, data: Data, *, resources: Resources = Resources()) -> Trained:
    """Train a victim: what an attacker is told, and the truth apart from it.

    For random features `theta* = Phi^T (Phi Phi^T + n lambda I)^-1 y` (Eqs. 2 and 169); networks descend to interpolation.

    Args:
        victim: what is trained, and what the attacker knows of it.
        data: a `Dataset`, a `DataRequest`, or `(X, y)` as arrays, tensors or data frames.
        resources: device, memory and, for networks, a checkpoint.

    Returns:
        The `Release`, the truth, and how well the model fits.

    >>> from exhume import DataRequest, RandomFeaturesVictim
    >>> trained = train(RandomFeaturesVictim(p=400), DataRequest("sphere", d=20, n=4))
    >>> trained.release.weights.shape
    torch.Size([1, 400])
    """
    return victim.train(dataset_of(data), device=resources.device, memory=resources.memory, checkpoint=resources.checkpoint_file)


def reconstruct(
    release: Release | str | Path,
    attack: Attack | str = "gauss-newton",
    *,
    seed: int = 0,
    watch: Watch = ignore,
    resources: Resources = Resources(),
) -> Reconstruction:
    """Rebuild training rows from a release alone: rows X with `||P_perp theta||^2 = 0`, where that can be reached.

    Args:
        release: what an attacker holds, or the path of its file.
        attack: a registered name (`exhume.ATTACKS`), or an attack with settings of its own.
        seed: of everything random in the search.
        watch: is told of every outer step, with the candidate rows.
        resources: device, memory, checkpoint, cache.

    Returns:
        The rows, their status and reason, and the certificate.

    >>> from exhume import DataRequest, RandomFeaturesVictim
    >>> release = train(RandomFeaturesVictim(p=640), DataRequest("sphere", d=20, n=4)).release
    >>> guess = reconstruct(release)
    >>> guess.certified, len(guess.rows)
    (True, 4)
    """
    opened = release if isinstance(release, Release) else load_release(release)
    chosen = attack_named(attack) if isinstance(attack, str) else attack
    return chosen.run(opened, seed=seed, watch=watch, resources=resources)


def evaluate(
    guess: Reconstruction | str | Path,
    truth: Data,
    release: Release | str | Path | None = None,
    *,
    device: str = "cpu",
    within: float = COVERED,
) -> Score:
    """How near a reconstruction comes to the truth, `rho = (1 / (n sqrt(d))) sum_i ||x_i - x^_i||` (Eq. 12), beside chance.

    Args:
        guess: a reconstruction, or the path of its file.
        truth: the training rows, in any form that `train` takes.
        release: gives the span residual (Eq. 167) too.
        device: where features are computed.
        within: relative error below which a row counts as covered.

    Returns:
        Every figure with its chance level.

    >>> from exhume import DataRequest, RandomFeaturesVictim
    >>> trained = train(RandomFeaturesVictim(p=640), DataRequest("sphere", d=20, n=4))
    >>> evaluate(reconstruct(trained.release), trained.truth).covered
    4
    """
    found = guess if isinstance(guess, Reconstruction) else load_reconstruction(guess)
    opened = load_release(release) if isinstance(release, str | Path) else release
    return score_of(found, dataset_of(truth), opened, device=device, within=within)


def law(p: int, d: int, n: int, activation: str = "relu") -> Expectation:
    """What to expect of a model before any attack: p equations against n d unknowns, and the transition as it was measured.

    Args:
        p: parameters of the last layer.
        d: input dimension.
        n: training samples.
        activation: of the features.

    Returns:
        The outcome in a word and a sentence, and what sign, scale, memory and time to expect.

    >>> law(8000, 100, 20).outcome
    'expected'
    >>> law(1000, 100, 20).outcome
    'impossible'
    """
    return expect(p, d, n, activation)


def audit(
    trained: Model,
    *,
    data: Data,
    init: Model | None = None,
    model: Any = None,
    held_out: Data | None = None,
    head: str | None = None,
    mean: Sequence[float] = (0.0,),
    spread: Sequence[float] = (1.0,),
    n: int | None = None,
    trust_code: bool = False,
    name: str | None = None,
    knowledge: Knowledge = Knowledge(),
    attack: Attack | str | None = None,
    within: float = WITHIN,
    seed: int = 0,
    watch: Watch = ignore,
    stage: Callable[[str], None] = lambda text: None,
    resources: Resources = Resources(),
) -> Audit:
    """What an attacker could rebuild of `data` from a trained model.

    Args:
        trained: a module, a fitted pipeline, a state dict, or a file of weights, of a pipeline (.skops) or of a program (.pt2).
        data: what it was trained on: `(X, y)` as arrays, tensors or data frames, or a file or folder.
        init: the weights before training, where an attacker may have them.
        model: the module, its factory, or "package.module:factory", where `trained` holds weights only.
        held_out: samples that it was not trained on, for false positives and utility.
        head: name of the last linear layer, where it is not found by running the model.
        mean: the model is fed `(x - mean) / spread`; one number, one per channel or one per column.
        spread: see `mean`.
        n: use the first n samples of the data.
        trust_code: load `.pt2` programs, which can run code.
        name: of the model, for the report.
        knowledge: what the attacker is assumed to know.
        attack: run this one only; by default every registered attack says whether it should be run.
        within: relative distance below which a sample counts as rebuilt.
        seed: of everything random.
        watch: is told of every outer step of an attack.
        stage: is told what begins.
        resources: device, memory, checkpoint.

    Returns:
        The verdict, the most exposed samples, the calibration, and all that led there.

    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from exhume import RandomFeatureMap
    >>> X, y = (part[:6] for part in load_breast_cancer(return_X_y=True, as_frame=False))
    >>> y = y + 1.0 * (X[:, 0] > X[:, 0].mean())
    >>> model = make_pipeline(StandardScaler(), RandomFeatureMap(1800), Ridge(alpha=1e-3)).fit(X, y)
    >>> audit(model, data=(X, y)).verdict.rebuilt
    6
    """
    inputs = AuditInputs(trained, data, model, init, held_out, head, mean, spread, n, trust_code, name)
    subject, others = subject_of(inputs, knowledge)
    return run_audit(
        subject,
        knowledge=knowledge,
        held_out=others,
        attack=attack_named(attack) if isinstance(attack, str) else attack,
        within=within,
        seed=seed,
        watch=watch,
        stage=stage,
        resources=resources,
    )


def mitigate(
    trained: Model,
    *,
    data: Data,
    init: Model | None = None,
    model: Any = None,
    held_out: Data | None = None,
    head: str | None = None,
    mean: Sequence[float] = (0.0,),
    spread: Sequence[float] = (1.0,),
    n: int | None = None,
    trust_code: bool = False,
    name: str | None = None,
    knowledge: Knowledge = Knowledge(),
    bearable: float = 0.0,
    within: float = WITHIN,
    seed: int = 0,
    watch: Watch = ignore,
    finished: Callable[[Rung], None] = lambda rung: None,
    resources: Resources = Resources(),
) -> Ladder:
    """What would stop the attacks on a trained model, each step measured: leakage against utility.

    Args:
        trained: as for `audit`, and so are `data` to `knowledge`, `within`, `seed`, `watch` and `resources`.
        bearable: share of rebuilt samples that counts as stopped.
        finished: is told of every step as it has been measured.

    Returns:
        The rungs, the open model first; `cheapest` stops the attacks at the least loss of utility.
    """
    inputs = AuditInputs(trained, data, model, init, held_out, head, mean, spread, n, trust_code, name)
    subject, others = subject_of(inputs, knowledge)
    first = run_audit(subject, knowledge=knowledge, held_out=others, within=within, seed=seed, watch=watch, resources=resources)
    return run_mitigations(
        inputs, knowledge, first, bearable=bearable, seed=seed, watch=watch, finished=finished, resources=resources
    )
