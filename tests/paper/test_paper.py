"""The paper's experiments as cells: all there, with the paper's settings and numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

import feddc
from feddc.algorithms import make_method
from feddc.paper import known as known_numbers
from feddc.paper.known import Known, known
from feddc.paper.published import TABLES, published_accuracy, published_rounds, table, targets
from feddc.paper.studies import STUDIES, Selection, select
from feddc.study.cells import Number


def test_published_numbers_are_found() -> None:
    assert str(published_rounds("mnist", "d2", 0.15, 0.98, "feddc")) == "62"
    assert str(published_rounds("mnist", "d2", 0.15, 0.98, "fedavg")) == ">600"
    assert published_rounds("mnist", "d2", 0.5, 0.98, "feddc") is None
    assert str(published_accuracy("cifar10", "iid", 500, 1.0, "feddc")) == "84.93"
    assert str(published_accuracy("tiny-imagenet", "d1", 20, 1.0, "feddc")) == "46.44"
    assert str(published_accuracy("cifar100", "iid", 100, 0.15, "fedyogi")) == "42.3"
    assert str(published_accuracy("synthetic-1-0", "", 20, 0.15, "feddc")) == "99.23"
    assert targets("cifar100") == (0.35, 0.4, 0.5)


def test_every_published_cell_is_in_a_study() -> None:
    """Each row of each table is the published number of some cell."""
    found = Counter(
        (cell.config.data.partition(":")[0], cell.column, cell.config.clients, cell.config.participation, cell.row)
        for study in STUDIES
        for cell in select(study, Selection())
    )
    for name in TABLES:
        for row in table(name):
            data, split = row["dataset"], row["split"]
            if data.startswith("synthetic"):
                data, split = "synthetic", data.removeprefix("synthetic-")
            clients, participation = int(row["clients"]), float(row.get("participation", 1.0))
            assert found[(data, split, clients, participation, row["method"])], row


@pytest.mark.parametrize("study", STUDIES)
def test_every_cell_is_a_valid_run(study: str) -> None:
    for cell in select(study, Selection()):
        make_method(cell.config.method)
        assert len(cell.published) == max(1, len(cell.targets))
    keys = [cell.key for cell in select(study, Selection(seeds=(0, 1)))]
    assert len(set(keys)) == len(keys)


def test_the_precision_study_differs_in_precision_only() -> None:
    single, half = select("precision", Selection())
    assert (single.config.precision, half.config.precision) == ("float32", "bf16")
    assert replace(half.config, precision="float32") == single.config
    [same] = select(
        "rounds", Selection(["cifar10"], ["iid"], None, ["0.15"], ["feddc"], target=0.8, precision=["bf16"])
    )
    assert half.key == same.key, "a finished run of one study serves the other"


def test_settings_are_the_papers() -> None:
    [cell] = select("rounds", Selection(["mnist"], ["d2"], None, ["0.15"], ["feddc"]))
    config = cell.config
    assert (config.method, config.split, config.model) == ("feddc:alpha=0.1", "dirichlet:0.3", "fcn")
    assert (config.batch_size, config.epochs, config.lr, config.lr_decay) == (50, 5, 0.1, 0.998)
    assert (config.weight_decay, config.clip_norm, config.rounds, config.stop_at) == (1e-3, 10.0, 600, 0.98)
    [many] = select("accuracy", Selection(["cifar10"], ["iid"], ["500"], ["1"], ["feddc"]))
    assert many.config.method == "feddc:alpha=0.05"
    [synthetic] = select("accuracy", Selection(["synthetic"], ["1-0"], None, ["1"], ["feddc"]))
    assert synthetic.config.method == "feddc:alpha=0.005"
    assert (synthetic.config.weight_decay, synthetic.config.lr_decay, synthetic.config.epochs) == (1e-5, 1.0, 10)


@pytest.mark.parametrize(
    ("study", "selection", "words"),
    [
        ("round", Selection(), "did you mean 'rounds'"),
        ("rounds", Selection(data=["minst"]), "did you mean 'mnist'"),
        ("rounds", Selection(split=["d3"]), "unknown split 'd3'"),
        ("rounds", Selection(methods=["fedadam"]), "unknown methods 'fedadam'"),
        ("accuracy", Selection(data=["mnist"], clients=["500"]), "no cell of study 'accuracy'"),
        ("rounds", Selection(seeds=()), "at least one seed"),
    ],
)
def test_bad_selections_are_refused(study: str, selection: Selection, words: str) -> None:
    with pytest.raises(feddc.ConfigError, match=words):
        select(study, selection)


def test_the_key_changes_with_what_changes_the_result_only() -> None:
    [cell] = select("rounds", Selection(["mnist"], ["d2"], None, ["0.15"], ["feddc"]))
    from dataclasses import replace

    def key(**changes: object) -> str:
        return replace(cell, config=replace(cell.config, **changes)).key  # type: ignore[arg-type]

    assert key(workers=3, executor="workers", target=0.9) == cell.key
    assert len({cell.key, key(seed=1), key(lr=0.2), key(rounds=5), key(method="feddc:alpha=0.2")}) == 5


def test_the_authors_forms_are_used_where_clients_have_different_sizes() -> None:
    """With equal sizes they are the defaults, and stored results keep their names."""
    texts = {(cell.row, cell.column): cell.config.method for cell in STUDIES["accuracy"]()}
    assert texts["feddc", "unbalanced"].startswith("feddc:steps=nominal")
    assert texts["scaffold", "unbalanced"].startswith("scaffold:form=feddc")
    for column in ("iid", "d1", "d2"):
        assert "nominal" not in texts["feddc", column]
        assert texts["scaffold", column] == "scaffold"


def test_a_target_leaves_out_the_higher_ones_and_a_precision_makes_another_cell() -> None:
    whole = Selection(data=["cifar10"], split=["iid"], participation=["0.15"], methods=["feddc"])
    [usual] = select("rounds", whole)
    [lower] = select("rounds", replace(whole, target=0.8, precision=["bf16"]))
    assert (usual.targets, lower.targets) == ((0.78, 0.8, 0.82), (0.78, 0.8))
    assert lower.published == usual.published[:2]
    assert (lower.config.target, lower.config.stop_at) == (0.8, 0.8)
    assert (usual.config.precision, lower.config.precision) == ("float32", "bf16")
    assert usual.key != lower.key
    with pytest.raises(feddc.ConfigError, match=r"--target 0\.7 is not a target .* \(these are: 0\.78, 0\.8, 0\.82\)"):
        select("rounds", replace(whole, target=0.7))
    with pytest.raises(feddc.ConfigError, match="unknown precision 'bf61': did you mean 'bf16'"):
        select("rounds", replace(whole, precision=["bf61"]))


def test_newer_methods_on_mnist_all_run_the_same_rounds() -> None:
    """A best accuracy can be compared only if no method stopped at a target."""
    cells = select("beyond", Selection(["mnist"]))
    assert {(each.config.stop_at, each.config.rounds, each.config.target) for each in cells} == {(None, 100, 0.97)}
    assert {"fedcm", "feddc+sam", "feddc+int8", "fedavg"} < {each.row for each in cells}


def test_what_the_paper_prints_holds_for_either_precision_and_for_no_other_setting() -> None:
    [cell] = select(
        "rounds", Selection(["cifar10"], ["iid"], None, ["0.15"], ["feddc"], target=0.8, precision=["bf16"])
    )
    assert {goal: number.value for goal, number in known(cell.config).rounds.items()} == {0.78: 88, 0.8: 108, 0.82: 162}
    assert known(replace(cell.config, precision="float32")) == known(cell.config)
    assert known(replace(cell.config, weight_decay=0.0)) == Known()


def test_the_papers_budget_is_the_longest_of_its_studies() -> None:
    """FedDC on MNIST, D2, is a cell of the paper's own studies, and of one of 100 rounds without a published number."""
    [cell] = select("beyond", Selection(["mnist"], methods=["feddc"]))
    assert (cell.config.rounds, cell.published) == (100, (None,))
    found = known(cell.config)
    assert (found.budget, found.accuracy) == (600, Number(98.4))
    assert found.rounds[0.98] == Number(62)


def test_of_two_numbers_for_one_cell_the_first_study_s_is_the_papers(monkeypatch: pytest.MonkeyPatch) -> None:
    [cell] = select("accuracy", Selection(["mnist"], ["iid"], None, ["1"], ["feddc"]))
    cells = [replace(cell, published=published) for published in ((None,), (Number(98.0),), (Number(97.0),), (None,))]
    monkeypatch.setattr(known_numbers, "STUDIES", {str(i): lambda each=each: [each] for i, each in enumerate(cells)})
    [found] = known_numbers._cells.__wrapped__().values()
    assert found.accuracy == Number(98.0)


def test_initial_weights_are_the_papers_own_setting_wherever_their_file_is() -> None:
    [cell] = select("tiny-imagenet", Selection(None, ["d1"], methods=["feddc"]))
    assert cell.published == (Number(46.44),)
    for model in ("resnet18:weights=a.pth", "resnet18:weights=/some/where/else.pth"):
        assert known(replace(cell.config, model=model)) == known(cell.config)
    assert known(cell.config).accuracy == Number(46.44)
    assert known(replace(cell.config, model="resnet18:small=true")) == Known()
