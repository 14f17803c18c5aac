"""Every verb of the Python API in twenty lines: `python examples/every_verb.py` runs it, `mypy --strict` accepts it."""

import torch

import exhume


def train_network(X: torch.Tensor, y: torch.Tensor) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """A network trained by plain gradient descent, and its weights before."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, 300, bias=False), torch.nn.ReLU(), torch.nn.Linear(300, 1, bias=False)).double()
    start = {name: value.clone() for name, value in net.state_dict().items()}
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(2000):
        optimiser.zero_grad()
        (net(X)[:, 0] - y).square().mean().backward()
        optimiser.step()
    return net, start


def main() -> None:
    """Random features give up their rows; so does a network."""
    trained: exhume.Trained = exhume.train(exhume.RandomFeaturesVictim(p=640), exhume.DataRequest("sphere", d=20, n=4))
    guess: exhume.Reconstruction = exhume.reconstruct(trained.release, exhume.GaussNewton(starts=2), seed=0)
    score: exhume.Score = exhume.evaluate(guess, trained.truth, trained.release)
    print(f"sphere: {score.covered} of {score.n_true} rows, error {score.rho_signed:.0e}, {guess.status.value}")
    result: exhume.TrialResult = exhume.run_trial(exhume.Trial(exhume.DataRequest("digits", n=10), ratio=8.0))
    print(f"digits: {result.score.covered} of {result.score.n_true}; 8000 features, 20 rows: {exhume.law(8000, 100, 20).outcome}")
    digits: exhume.Dataset = exhume.load(exhume.DataRequest("digits", n=6))
    net, start = train_network(digits.rows, digits.labels)
    knowledge = exhume.Knowledge(labels=False)
    audit: exhume.Audit = exhume.audit(net, init=start, data=(digits.rows, digits.labels), knowledge=knowledge)
    print(audit.verdict.headline, exhume.write_audit(audit, "exhume-audit"))
    ladder: exhume.Ladder = exhume.mitigate(net, init=start, data=(digits.rows, digits.labels), knowledge=knowledge)
    print("the cheapest step that helps:", "none" if ladder.cheapest is None else ladder.cheapest.step)


if __name__ == "__main__":
    main()
