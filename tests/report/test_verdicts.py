"""Published against measured: the rule, with values worked out by hand, and the page of all cells."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

import feddc
from feddc.paper.studies import Selection, select
from feddc.report import stored, summary
from feddc.report.figures import new_figure, paper_style
from feddc.report.lines import arrange
from feddc.report.numbers.verdicts import Compared, compare
from feddc.report.runs import Run
from feddc.report.tables import goals
from feddc.study.cells import Number
from tests.report.test_stored import run


def rounds(
    published: float, *values: float, bounds: tuple[int, ...] = (), typical: float | None = None, over: bool = False
) -> Compared:
    return Compared("mnist", "iid", "FedDC", 0.98, Number(published, over), values, bounds, typical)


# Logarithms of 40, 50, 60 have the deviation 0.2031, times √(4/3) is 0.2345; twice that is a factor of 1.598. Their
# geometric mean is 49.32, so that 30.9 to 78.8 is not further than chance; their mean is 50, so 45.5 to 55 is close.
@pytest.mark.parametrize(
    ("published", "verdict"), [(50, "agrees"), (55, "agrees"), (45.5, "agrees"), (56, "chance"), (45, "chance")]
)
def test_three_seeds(published: float, verdict: str) -> None:
    assert rounds(published, 40, 50, 60).verdict() == verdict


@pytest.mark.parametrize(("published", "verdict"), [(31, "chance"), (30, "differs"), (78, "chance"), (80, "differs")])
def test_the_edge_of_chance(published: float, verdict: str) -> None:
    cell = rounds(published, 40, 50, 60)
    assert cell.deviation() == pytest.approx(0.2031, abs=1e-4)
    assert cell.verdict() == verdict


def test_the_typical_deviation_counts_where_seeds_happen_to_be_equal() -> None:
    assert rounds(15, 13, 13, 13).verdict() == "differs"
    assert rounds(15, 13, 13, 13, typical=0.1).verdict() == "chance"  # ln(15/13) = 0.143, 2 · 0.1 · √(4/3) = 0.231
    assert rounds(14, 13, 13, 13).verdict() == "agrees"  # ln(14/13) = 0.074, half a round is 0.0385, · 2 √(4/3) = 0.089


def test_one_seed_is_no_evidence_unless_it_is_far_off() -> None:
    assert rounds(46, 46).verdict() == "few seeds"
    assert rounds(46, 46, typical=0.2).verdict() == "few seeds"
    assert rounds(87, 300).verdict() == "few seeds"
    assert rounds(87, 13, 13).verdict() == "few seeds"  # two seeds that happen to be equal tell nothing either
    assert rounds(87, 300, typical=0.2).verdict() == "differs"  # ln(300/87) = 1.238, 2 · 0.2 · √2 = 0.566


def test_what_was_not_reached() -> None:
    never = {"bounds": (600, 600, 600), "typical": 0.1}
    assert rounds(600, over=True, **never).verdict() == "agrees"  # type: ignore[arg-type]
    assert rounds(1000, over=True, **never).verdict() == "too short"  # type: ignore[arg-type]
    assert rounds(400, **never).verdict() == "differs"  # type: ignore[arg-type]  # ln 1.5 = 0.405 > 0.1 · 2 √(4/3)
    assert rounds(500, **never).verdict() == "chance"  # type: ignore[arg-type]  # ln 1.2 = 0.182 < 0.231
    assert rounds(600, 100, 110, 105, over=True).verdict() == "differs"
    assert rounds(600, 590, 570, 580, over=True, typical=0.1).verdict() == "chance"
    assert rounds(108, bounds=(57,)).verdict() == "too short"
    assert rounds(400, 580, bounds=(600,), typical=0.1).ours == "580; 1 of 2 >600"


def test_accuracies_differ_by_points() -> None:
    cell = Compared("synthetic", "", "FedAvg", None, Number(98.65), (97.4, 97.6, 97.8))
    assert cell.deviation() == pytest.approx(0.2)
    assert cell.verdict() == "differs"  # 1.05 > 2 · 0.2 · √(4/3) = 0.46
    assert Compared("synthetic", "", "FedDC", None, Number(98.0), (97.4, 97.6, 97.8)).verdict() == "agrees"
    assert (
        Compared("synthetic", "", "FedDC", None, Number(98.0), (97.25, 97.5, 97.75)).verdict() == "agrees"
    )  # half a point
    assert Compared("synthetic", "", "FedDC", None, Number(98.3), (97.2, 97.6, 98.0)).verdict() == "chance"
    assert cell.ours == "97.60 ± 0.20"


def cells() -> list[Run]:
    """FedDC with three seeds: 98 % in rounds 2, 2, 4; FedAvg with one: not in 3 rounds."""
    chosen = select("rounds", Selection(["mnist"], ["iid"], None, ["0.15"], ["feddc"], seeds=(0, 1, 2)))
    scores = [[0.9, 0.98], [0.97, 0.98], [0.9, 0.9, 0.9, 0.99]]
    [base] = select("rounds", Selection(["mnist"], ["iid"], None, ["0.15"], ["fedavg"]))
    return [run(each, *found) for each, found in zip(chosen, scores, strict=True)] + [run(base, 0.5, 0.9, 0.97)]


def test_every_published_number_of_the_runs_is_compared() -> None:
    found = {(each.method, each.target): each for each in compare(cells())}
    assert set(found) == {("FedDC", 0.96), ("FedDC", 0.98), ("FedAvg", 0.96), ("FedAvg", 0.98)}
    assert found["FedDC", 0.98].values == (2, 2, 4)
    assert found["FedDC", 0.98].published == Number(46)
    assert found["FedDC", 0.96].values == (2, 1, 4)
    assert found["FedAvg", 0.98].bounds == (3,)
    assert found["FedAvg", 0.98].verdict() == "too short"
    own = found["FedDC", 0.98].deviation()
    assert own == pytest.approx(math.log(2) / math.sqrt(3))
    assert found["FedAvg", 0.98].typical is None  # one cell with several seeds says nothing of others


def test_a_precision_is_a_row_of_its_own_beside_the_same_published_number() -> None:
    chosen = Selection(["mnist"], ["iid"], None, ["0.15"], ["feddc"])
    [plain], [half] = (select("rounds", each) for each in (chosen, replace(chosen, precision=["bf16"])))
    found = {(each.setting[-6:], each.target): each for each in compare([run(plain, 0.98), run(half, 0.5, 0.98)])}
    assert found[" round", 0.98].values == (1,)
    assert found[", bf16", 0.98].values == (2,)
    assert found[", bf16", 0.98].published == found[" round", 0.98].published == Number(46)


def test_three_similar_cells_make_a_typical_deviation() -> None:
    found = []
    for split, last in (("iid", 4), ("d1", 8), ("d2", 16)):
        chosen = select("rounds", Selection(["mnist"], [split], None, ["0.15"], ["feddc"], seeds=(0, 1)))
        found += [run(one, *[0.5] * rounds, 0.99) for one, rounds in zip(chosen, (1, last - 1), strict=True)]
    [typical] = {each.typical for each in compare(found) if each.target == 0.98}
    assert typical == pytest.approx(math.log(4) / math.sqrt(2))  # of 2 and 8 rounds, between 2 and 4, 2 and 16


def test_a_seed_that_two_studies_ran_counts_once() -> None:
    [long] = select("alpha", Selection(["mnist"], None, None, ["0.15"], ["alpha=0.1"], rounds=100))
    both = [*cells(), run(long, 0.9, 0.9, 0.9, 0.9, 0.98)]
    found = {(each.method, each.target): each for each in compare(both)}
    assert found["FedDC", 0.98].values == (2, 2, 4)
    assert not any(each.target is None for each in found.values())  # 100 rounds are not the paper's 600


def test_the_page(tmp_path: Path) -> None:
    stored.save(tmp_path / "a.json", {str(i): each for i, each in enumerate(cells())})
    text = summary.page(tmp_path, "feddc reproduce summary").read_text()
    assert "| mnist, rounds to 98 % | 0 | 0 | 1 | 0 | 1 |" in text
    assert (
        "| mnist, iid, 100 clients, 15 % a round | FedDC | rounds to 98 % | 46 | 2.7 ± 1.2 | 3 | **differs** |" in text
    )
    assert "| FedAvg | rounds to 98 % | 158 | >3 | 1 | too short |" in text
    assert (tmp_path / "summary.png").read_bytes()[:4] == b"\x89PNG"


def test_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(feddc.RunError, match="no results of the paper's cells"):
        summary.page(tmp_path, "")


def test_one_round_is_close_whatever_its_share() -> None:
    assert rounds(5, 4, 4, 4).verdict() == "agrees"  # a quarter more, but one round
    assert rounds(3, 4, 4, 4, typical=0.3).verdict() == "agrees"
    assert rounds(6, 4, 4, 4, typical=0.3).verdict() == "chance"


def test_a_target_above_the_score_at_which_runs_stop_is_left_out() -> None:
    chosen = Selection(["cifar10"], ["iid"], None, ["0.15"], ["feddc"])
    [whole], [short] = (select("rounds", each) for each in (chosen, replace(chosen, target=0.8)))
    [setting] = arrange([run(short, 0.5, 0.8)])
    assert goals(setting) == (0.78, 0.8)
    [setting] = arrange([run(whole, 0.5, 0.8)])
    assert goals(setting) == (0.78, 0.8, 0.82)
    lower = replace(short, config=replace(short.config, target=0.78))
    [setting] = arrange([run(lower, 0.5, 0.8)])
    assert goals(setting) == (0.78, 0.8)  # that at which they stop is among them


def test_seeds_that_all_have_the_published_number_agree() -> None:
    assert Compared("synthetic", "", "FedDC", None, Number(98.0), (98.0, 98.0, 98.0)).verdict() == "agrees"


@pytest.mark.parametrize(("rounds", "best"), [(599, []), (600, [(99.0,)])])
def test_the_best_accuracy_is_compared_where_a_run_had_as_many_rounds_as_the_papers(
    rounds: int, best: list[tuple[float, ...]]
) -> None:
    [cell] = select("alpha", Selection(["mnist"], None, None, ["0.15"], ["alpha=0.1"], rounds=rounds))
    assert [each.values for each in compare([run(cell, 0.5, 0.99, 0.98)]) if each.target is None] == best


def test_the_key_of_the_picture_is_inside_the_picture() -> None:
    """With all methods and data sets of the paper, which in one line are wider than a page."""
    methods, data = ("FedAvg", "FedProx", "SCAFFOLD", "FedDyn", "FedDC"), tuple(summary.MARKERS)
    cells = [Compared(each, "", name, 0.9, Number(1), (1.0,)) for each in data for name in methods]
    with paper_style():
        figure, _ = new_figure(2, 2)
        summary._key(figure, cells)
        figure.draw_without_rendering()
        [key] = figure.legends
        box = key.get_window_extent()
    assert [text.get_text() for text in key.get_texts()][:4] == ["FedAvg", "mnist", "FedProx", "fashion-mnist"]
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
