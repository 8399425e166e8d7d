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
    assert rounds(600, over=True, bounds=(600,) * 3).verdict() == "agrees"  # whatever the deviation is
    assert rounds(600, over=True, bounds=(600,) * 2, typical=0.1).verdict() == "few seeds"
    assert rounds(1000, over=True, **never).verdict() == "too short"  # type: ignore[arg-type]
    assert rounds(600, 100, 110, 105, over=True).verdict() == "differs"  # 600 or more: at least ln(600/105) = 1.743
    assert rounds(108, bounds=(57,)).verdict() == "too short"
    assert rounds(400, 580, bounds=(600,), typical=0.1).ours == "580; 1 of 2 >600"


# Allowed is 2 √(4/3) = 2.309 times the deviation of the seeds, or times the typical 0.1.
@pytest.mark.parametrize(
    ("cell", "verdict"),
    [
        # At 600 each ln(600/500) = 0.182 is within; at 660 each 0.278 is not.
        (rounds(500, bounds=(600,) * 3, typical=0.1), "too short"),
        # At 600 each ln 1.5 = 0.405 is not within, and later they are further away.
        (rounds(400, bounds=(600,) * 3, typical=0.1), "differs"),
        # With 100, 110, 600 the deviation 1.008 allows 2.33, and ln 400 is 0.757 away; with 990 the mean is 400.
        (rounds(400, 100, 110, bounds=(600,), typical=0.1), "too short"),
        # With 600 the deviation 1.509 allows 3.48, and ln 46 is 0.826 away; with 60 000 4.167, 9.62, 2.361. One far off
        # moves the mean by a third of what it moves, and allows more; the mean is at least 229, which is not close.
        (rounds(46, 43, 45, bounds=(600,), typical=0.1), "chance"),
        # At 600 and 600 the deviation 0.144 allows 0.332, and the distance is 0.140; the paper's may be 60 000.
        (rounds(600, 450, 525, bounds=(600,), typical=0.1, over=True), "too short"),
        # FedProx on MNIST's D2. At 600 ln 418 is 0.289 away, and 0.304 is allowed; at 660 it is 0.320 away, and the
        # deviation 0.121 does not allow more; at 720 it is 0.349 away, and 0.170 · 2 √(4/3) = 0.393 is allowed.
        (rounds(418, 525, 551, bounds=(600,), typical=0.1318), "too short"),
        # With 580, 585, 600 the mean is 588; with 60 000 it is 20 388.
        (rounds(590, 580, 585, bounds=(600,), typical=0.1), "too short"),
        (rounds(600, 590, 570, 580, over=True, typical=0.1), "too short"),
        # Two seeds are judged by the typical deviation: ln(600/87) = 1.931 or more, 2 · 0.1 · √(3/2) = 0.245.
        (rounds(87, bounds=(600,) * 2, typical=0.1), "differs"),
        (rounds(46, bounds=(60,), typical=0.2), "too short"),  # ln(60/46) = 0.266 is within 0.566, ln(600/46) is not
        (rounds(46, bounds=(60,)), "few seeds"),
    ],
)
def test_a_bound_may_be_any_larger_number(cell: Compared, verdict: str) -> None:
    assert cell.verdict() == verdict


def test_seeds_that_did_not_arrive_count_as_seeds() -> None:
    """ln(120/87) = 0.322 or more is further than 2 · 0.12 · √(1 + 1/2) = 0.294, and not than 2 · 0.12 · √(1 + 1/1)."""
    assert rounds(87, 120, bounds=(120,), typical=0.12).verdict() == "differs"
    assert rounds(87, 120, typical=0.12).verdict() == "few seeds"


def test_the_deviation_of_a_cell_is_known_where_all_its_seeds_arrived() -> None:
    assert rounds(418, 525, 551).deviation() == pytest.approx(math.log(551 / 525) / math.sqrt(2))
    assert rounds(418, 525, 551, bounds=(600,)).deviation() is None
    assert rounds(418, 525).deviation() is None


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


def test_the_run_of_a_seed_that_knows_most_counts() -> None:
    """A run that stopped at 96 %, or was interrupted, said '>3' of 98 % although a longer one had reached it."""
    [short] = select("rounds", Selection(["mnist"], ["iid"], None, ["0.15"], ["feddc"], target=0.96))
    [long] = select("alpha", Selection(["mnist"], None, None, ["0.15"], ["alpha=0.1"], rounds=100))
    stopped, whole = run(short, 0.9, 0.95, 0.961), run(long, 0.9, 0.97, 0.97, 0.97, 0.981, 0.98)
    until = replace(stopped.config, target=0.98, stop_at=0.98)
    interrupted = replace(stopped, config=until, status="unfinished")
    for other, first in ((stopped, 3), (interrupted, 3)):
        for order in ([other, whole], [whole, other]):
            found = {each.target: each for each in compare(order)}
            assert found[0.98].values == (5,)
            assert found[0.96].values == (first,)  # both reached it: the run that was to stop at a target
    never = run(long, 0.9, 0.95, 0.95, 0.95)
    for order in ([stopped, never], [never, stopped]):
        found = {each.target: each for each in compare(order)}
        assert (found[0.98].values, found[0.98].bounds) == ((), (4,))
        assert (found[0.96].values, found[0.96].bounds) == ((3,), ())


def test_a_run_that_diverged_has_no_best_accuracy() -> None:
    """It counted with the best before it diverged: 82.88 ± 28.47 of 99.32, 99.32 and 50."""
    chosen = select("accuracy", Selection(["synthetic"], ["0-0"], None, ["0.15"], ["feddyn"], seeds=(0, 1, 2)))
    runs = [run(each, 0.5, best) for each, best in zip(chosen, (0.9931, 0.9933, 0.5), strict=True)]
    runs[2] = replace(runs[2], status="diverged")
    [cell] = compare(runs)
    assert (cell.ours, cell.seeds, cell.verdict()) == ("99.32 ± 0.01; 1 of 3 diverged", 2, "few seeds")
    [cell] = compare([replace(each, status="diverged") for each in runs])
    assert (cell.ours, cell.seeds, cell.verdict()) == ("3 of 3 diverged", 0, "few seeds")
    assert replace(cell, typical=0.1).verdict() == "few seeds"


def test_cells_of_which_all_seeds_diverged_are_on_the_page(tmp_path: Path) -> None:
    [lost, fine] = select("accuracy", Selection(["synthetic"], ["0-0"], None, ["0.15"], ["feddyn", "feddc"]))
    runs = {"a": replace(run(lost, 0.5, 0.6), status="diverged"), "b": run(fine, 0.5, 0.99)}
    stored.save(tmp_path / "a.json", runs)
    text = summary.page(tmp_path, "feddc reproduce summary").read_text()
    assert "| FedDyn | best accuracy, % | 99.32 | 1 of 1 diverged | 0 | few seeds |" in text
    assert "| FedDC | best accuracy, % | 99.57 | 99.00 | 1 | few seeds |" in text


def test_the_page(tmp_path: Path) -> None:
    stored.save(tmp_path / "a.json", {str(i): each for i, each in enumerate(cells())})
    text = summary.page(tmp_path, "feddc reproduce summary").read_text()
    assert "| mnist, rounds to 98 % | 0 | 0 | 1 | 0 | 1 |" in text
    assert (
        "| mnist, iid, 100 clients, 15 % a round | FedDC | rounds to 98 % | 46 | 2.7 ± 1.2 | 3 | **differs** |" in text
    )
    assert "| FedAvg | rounds to 98 % | 158 | >3 | 1 | too short |" in text
    assert (tmp_path / "summary.png").read_bytes()[:4] == b"\x89PNG"


def test_every_data_set_of_the_paper_is_on_the_page(tmp_path: Path) -> None:
    assert {
        cell.config.data.partition(":")[0]
        for study in ("rounds", "accuracy", "tiny-imagenet")
        for cell in select(study, Selection())
    } == set(summary.MARKERS)
    [cell] = select("tiny-imagenet", Selection(None, ["d1"], methods=["feddc"]))
    weights = replace(cell.config, model="resnet18:weights=a.pth")
    stored.save(tmp_path / "a.json", {"a": replace(run(cell, *[0.4] * 9, 0.46), config=weights)})
    text = summary.page(tmp_path, "feddc reproduce summary").read_text()
    assert "| FedDC | best accuracy, % | 46.44 | 46.00 | 1 | few seeds |" in text


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
