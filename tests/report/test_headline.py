"""The first screen claims nothing that the runs do not show."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from feddc.report.headline import Headline, headline
from feddc.report.lines import arrange
from feddc.report.runs import collect
from tests.report.runs import reaching, write_comparison, write_run, write_seeds


def of(path: Path) -> Headline:
    [setting] = arrange(collect([path]))
    return headline(setting)


def everything(found: Headline) -> str:
    return " ".join(
        [found.sentence, found.detail, found.cost, *(f"{c.question} {c.answer} {c.who} {c.note}" for c in found.cards)]
    )


def test_a_run_under_way_is_not_judged(tmp_path: Path) -> None:
    """It said "fedavg does not reach 95 % in 300 rounds" after 12 of 300 rounds."""
    write_run(tmp_path / "a", method="fedavg", rounds=300, scores=[0.5] * 12, done=12)
    found = of(tmp_path)
    assert found.sentence == "No claim yet: 0 of 1 runs finished; the one furthest back has run 12 of 300 rounds."
    assert found.cards == ()
    write_run(tmp_path / "b", method="feddc", scores=reaching(4, 12))
    assert of(tmp_path).sentence.startswith("No claim yet: 1 of 2 runs finished")
    write_run(tmp_path / "c", method="scaffold", rounds=300, scores=[0.5], done=1)
    expected = "No claim yet: 1 of 3 runs finished; the one furthest back has run 1 of 300 rounds."
    assert of(tmp_path).sentence == expected


def test_what_has_finished_is_compared_while_the_rest_runs(tmp_path: Path) -> None:
    write_seeds(tmp_path, "feddc", [reaching(n, 30) for n in (5, 6, 5)])
    write_seeds(tmp_path, "fedavg", [reaching(n, 30) for n in (15, 17, 16)])
    write_run(tmp_path / "x", method="scaffold", scores=[0.95] * 3, rounds=30, done=3)
    found = everything(of(tmp_path))
    assert found.startswith("Of the methods that have finished: FedDC reaches 90 % in the fewest rounds: 5.3 ± 0.6,")
    assert "SCAFFOLD" not in found


def test_a_method_that_gets_there_with_some_seeds_gets_there_with_some_seeds(tmp_path: Path) -> None:
    """It said that such a method "does not get there", and gave a bound of 34 / 12.67."""
    write_seeds(tmp_path, "fedavg", [reaching(n, 34) for n in (27, 99, 99)])
    write_seeds(tmp_path, "feddc", [reaching(n, 34) for n in (12, 13, 13)])
    found = of(tmp_path)
    assert found.sentence.startswith(
        "FedDC reaches 90 % in the fewest rounds: 12.7 ± 0.6, at least 19.7 fewer than FedAvg, "
        "which gets there with 1 of 3 seeds."
    )
    assert found.detail == "95 % interval 9.63 to 29.7; paired t-test, 3 seeds, p = 0.014."
    assert "does not" not in everything(found)


def test_a_difference_within_the_noise_is_none(tmp_path: Path) -> None:
    """It crowned a winner by 0.09 points with p = 0.42, and counted "1× fewer rounds"."""
    write_seeds(tmp_path, "fedavg", [[0.8, 0.9100], [0.8, 0.9150], [0.8, 0.9120]], target=0.99)
    write_seeds(tmp_path, "feddc", [[0.8, 0.9130], [0.8, 0.9140], [0.8, 0.9127]], target=0.99)
    found = of(tmp_path)
    assert found.sentence == "No difference in best accuracy is shown with these 3 seeds. No run reaches 99 %."
    [card] = found.cards
    assert (card.who, card.note) == ("FedDC", "no difference from FedAvg shown with these 3 seeds")
    write_seeds(tmp_path / "r", "fedavg", [reaching(n, 30) for n in (10, 11, 12)])
    write_seeds(tmp_path / "r", "feddc", [reaching(n, 30) for n in (11, 11, 11)])
    assert "No difference in rounds to 90 % is shown with these 3 seeds." in everything(of(tmp_path / "r"))
    assert "1×" not in everything(of(tmp_path / "r"))


def test_ties_are_ties(tmp_path: Path) -> None:
    """Of a three-way tie it named one."""
    for method in ("fedavg", "scaffold", "feddc"):
        write_seeds(tmp_path / "one", method, [reaching(7, 10)])
    found = of(tmp_path / "one")
    assert found.sentence == "One seed: no claim. Rounds to 90 %: FedAvg 7, SCAFFOLD 7, FedDC 7."
    assert found.cards[0].who == "FedAvg, SCAFFOLD and FedDC"
    for method in ("scaffold", "feddc"):
        write_seeds(tmp_path / "two", method, [reaching(n, 30) for n in (7, 8, 7)])
    write_seeds(tmp_path / "two", "fedavg", [reaching(n, 30) for n in (20, 22, 20)])
    assert of(tmp_path / "two").sentence.startswith(
        "SCAFFOLD and FedDC reach 90 % in the fewest rounds; no difference between them is shown with these 3 seeds."
    )
    assert of(tmp_path / "two").detail.startswith("SCAFFOLD: 7.3 ± 0.6, 13.3 fewer than FedAvg (95 % interval ")


def test_one_seed_makes_no_claim(tmp_path: Path) -> None:
    found = of(write_comparison(tmp_path / "c", rounds=40))
    assert found.sentence == "One seed: no claim. Rounds to 90 %: FedDC 11, FedAvg 27."
    assert {card.note for card in found.cards} == {"one seed: no claim"}
    alone = of(write_run(tmp_path / "r"))
    assert alone.sentence == "FedDC: best accuracy 96.24 %, rounds to 90 %: 11 (one seed)."


def test_no_seconds_on_the_first_screen(tmp_path: Path) -> None:
    """It said "takes 3.3× its time" from the noise of a clock."""
    found = of(write_comparison(tmp_path / "c", rounds=40))
    assert found.cost == "A round of FedDC moves 2.0× the bytes of FedAvg."
    level = of(write_comparison(tmp_path / "d", ("fedavg", "feddyn"), rounds=40))
    assert level.cost == "A round of FedDyn moves as many bytes as one of FedAvg."
    assert [card.question for card in found.cards] == ["Best accuracy", "Rounds to 90 %", "Moved to 90 %"]
    assert " s " not in everything(found)


def test_bytes_have_a_unit_that_fits(tmp_path: Path) -> None:
    """The terminal said "MB to 95 %: 0.0"."""
    write_seeds(tmp_path, "feddc", [reaching(2, 10)])
    assert of(tmp_path).cards[2].answer.endswith(("kB", "bytes"))


def test_a_diverged_method_is_not_judged(tmp_path: Path) -> None:
    write_seeds(tmp_path, "feddc", [reaching(3, 30)], status="diverged")
    assert of(tmp_path).sentence == "No claim: every method has a run that diverged."
    write_seeds(tmp_path, "fedavg", [reaching(9, 30)])
    assert "FedDC" not in everything(of(tmp_path))


def test_a_lower_score_may_be_the_better_one(tmp_path: Path) -> None:
    from feddc.report.numbers.measure import Measure

    write_seeds(tmp_path, "fedavg", [[0.5, 0.40, 0.40, 0.40], [0.5, 0.42, 0.4, 0.4], [0.5, 0.41, 0.4, 0.4]], target=0.3)
    write_seeds(tmp_path, "feddc", [[0.25, 0.3, 0.3, 0.4], [0.26, 0.3, 0.3, 0.4], [0.24, 0.3, 0.3, 0.4]], target=0.3)
    loss = Measure("error", higher_is_better=False)
    [setting] = arrange([replace(run, measure=loss) for run in collect([tmp_path])])
    assert (
        "FedDC reaches 0.3 in the fewest rounds: 1.0 ± 0.0, at least 4 fewer than FedAvg" in headline(setting).sentence
    )
    assert headline(setting).cards[0].answer == "0.2500 ± 0.0100"
    assert "below FedAvg" in headline(setting).cards[0].note


def test_more_methods_need_a_clearer_difference(tmp_path: Path) -> None:
    """Of many comparisons one is significant by chance: they are corrected for their number."""
    write_seeds(tmp_path, "feddc", [reaching(n, 40) for n in (7, 8, 9)])
    write_seeds(tmp_path, "fedavg", [reaching(n, 40) for n in (12, 18, 16)])
    found = of(tmp_path)
    assert found.sentence.startswith("FedDC reaches 90 % in the fewest rounds")
    assert found.detail.endswith("; paired t-test, 3 seeds, p = 0.037.")
    write_seeds(tmp_path, "fedprox", [reaching(n, 40) for n in (12, 18, 16)])
    assert of(tmp_path).sentence == "No difference in rounds to 90 % is shown with these 3 seeds."
    write_seeds(tmp_path, "scaffold", [reaching(n, 40) for n in (37, 38, 39)])
    found = of(tmp_path)
    assert found.sentence.startswith("FedDC, FedAvg and FedProx reach 90 % in the fewest rounds; no difference between")
    assert found.detail.endswith("p = 0.0022 (Holm, 6 comparisons)).")  # all pairs of four: the first was chosen


def test_identical_runs_show_nothing(tmp_path: Path) -> None:
    for method in ("fedavg", "fedprox", "feddc"):
        write_seeds(tmp_path, method, [reaching(7, 20), reaching(8, 20), reaching(7, 20)])
    found = of(tmp_path)
    assert found.sentence == "No difference in rounds to 90 % is shown with these 3 seeds."
    assert {card.who for card in found.cards[:2]} == {"FedAvg, FedProx and FedDC"}  # the third is bytes


def test_two_seeds_with_equal_differences_show_nothing(tmp_path: Path) -> None:
    write_seeds(tmp_path, "fedavg", [[0.5, 0.90], [0.5, 0.92]], target=0.99)
    write_seeds(tmp_path, "feddc", [[0.5, 0.91], [0.5, 0.93]], target=0.99)
    assert of(tmp_path).sentence == "No difference in best accuracy is shown with these 2 seeds. No run reaches 99 %."


def test_a_method_with_one_seed_does_not_silence_the_others(tmp_path: Path) -> None:
    write_seeds(tmp_path, "feddc", [reaching(n, 30) for n in (5, 6, 5)])
    write_seeds(tmp_path, "fedavg", [reaching(n, 30) for n in (15, 17, 16)])
    write_seeds(tmp_path, "scaffold", [reaching(2, 30)])
    found = of(tmp_path)
    assert found.sentence.startswith("FedDC reaches 90 % in the fewest rounds: 5.3 ± 0.6, 10.7 fewer than FedAvg.")
    assert found.sentence.endswith("Not judged, with fewer than two seeds in common: SCAFFOLD.")


def test_seeds_that_differ_between_methods_are_not_paired(tmp_path: Path) -> None:
    write_seeds(tmp_path, "feddc", [reaching(n, 30) for n in (5, 6, 5)])
    for seed, rounds in ((3, 15), (4, 17), (5, 16)):
        write_run(tmp_path / f"other-{seed}", method="fedavg", seed=seed, scores=reaching(rounds, 30))
    found = of(tmp_path)
    assert found.sentence == (
        "Fewer than two seeds in common: no claim. Rounds to 90 %: FedDC 5.3 ± 0.6, FedAvg 16.0 ± 1.0."
    )
    assert {card.note for card in found.cards} == {"fewer than two seeds in common: no claim"}


def test_what_was_looked_at_first_is_told_too(tmp_path: Path) -> None:
    """Where rounds show no difference and scores do, naming scores alone would be picking."""
    write_seeds(tmp_path, "fedavg", [[0.5, 0.91, 0.921], [0.5, 0.91, 0.922], [0.5, 0.91, 0.923]])
    write_seeds(tmp_path, "feddc", [[0.5, 0.91, 0.961], [0.5, 0.91, 0.963], [0.5, 0.91, 0.962]])
    assert of(tmp_path).sentence.startswith(
        "No difference in rounds to 90 % is shown with these 3 seeds; FedDC has the highest best accuracy: 96.20 ± 0.10"
    )


def test_one_seed_while_others_run(tmp_path: Path) -> None:
    write_comparison(tmp_path, ("fedavg", "feddyn"), rounds=40)
    write_run(tmp_path / "x", rounds=40, done=3)
    assert of(tmp_path).sentence.startswith("Not all runs have finished. One seed: no claim. Rounds to 90 %: FedDyn")


def test_labels_with_commas_are_told_apart(tmp_path: Path) -> None:
    write_run(tmp_path / "a", method="fedavg", lr=0.1, scores=reaching(7, 10))
    write_run(tmp_path / "b", method="feddc", lr=0.2, scores=reaching(5, 10))
    assert of(tmp_path).sentence == "One seed: no claim. Rounds to 90 %: FedDC, lr 0.2: 5; FedAvg, lr 0.1: 7."


def test_the_run_furthest_back_has_the_smallest_share_of_its_rounds(tmp_path: Path) -> None:
    write_run(tmp_path / "a", method="fedavg", rounds=300, scores=[0.5] * 12, done=12)
    write_run(tmp_path / "b", method="feddc", rounds=20, scores=[0.5] * 10, done=10)
    assert of(tmp_path).sentence.endswith("the one furthest back has run 12 of 300 rounds.")


def test_bytes_are_for_each_client_that_took_part(tmp_path: Path) -> None:
    """However many seeds and clients each method had."""
    write_seeds(tmp_path, "feddc", [reaching(3, 10), reaching(4, 10), reaching(3, 10)])
    write_seeds(tmp_path, "fedavg", [reaching(8, 10), reaching(9, 10)])
    [setting] = arrange(collect([tmp_path]))
    assert headline(setting).cost == "A round of FedDC moves 2.0× the bytes of FedAvg."
    moved = {"feddc": ((0,), 3000), "fedavg": ((0, 1), 2000)}
    lines = []
    for line in setting.lines:
        who, size = moved[line.name]
        once = replace(line.runs[0].records[0], participants=who, bytes_up=size, bytes_down=size)
        lines.append(replace(line, runs=tuple(replace(run, records=(once,)) for run in line.runs[:1])))
    assert headline(replace(setting, lines=tuple(lines))).cost == "A round of FedDC moves 3.0× the bytes of FedAvg."


def test_a_method_that_never_arrives_is_not_said_to_arrive_first(tmp_path: Path) -> None:
    """With two seeds little can be shown: it said that all four reach the target in the fewest rounds."""
    write_seeds(tmp_path, "fedavg", [reaching(n, 30) for n in (20, 20, 21)])
    write_seeds(tmp_path, "feddc", [reaching(n, 30) for n in (5, 6, 5)])
    write_seeds(tmp_path, "feddyn", [reaching(n, 30) for n in (6, 5, 6)])
    write_seeds(tmp_path, "scaffold", [reaching(99, 30)] * 2)
    write_seeds(tmp_path, "fedprox", [reaching(n, 30) for n in (6, 99)])
    found = of(tmp_path).sentence
    assert found == (
        "FedDC and FedDyn reach 90 % in the fewest rounds; no difference between them is shown with these 2 seeds."
        " No difference is shown from FedProx, which gets there with 1 of 2 seeds;"
        " SCAFFOLD, which gets there with none of 2 seeds."
    )


def test_of_many_that_are_equal_four_are_shown(tmp_path: Path) -> None:
    for method in ("fedavg", "fedprox", "scaffold", "feddyn", "feddc"):
        write_seeds(tmp_path, method, [reaching(7, 10)])
    found = of(tmp_path)
    assert found.sentence == "One seed: no claim. Rounds to 90 %: FedAvg 7, FedProx 7, SCAFFOLD 7, FedDyn 7."
    assert found.cards[1].who == "5 methods"


def test_a_method_alone_says_how_many_seeds_it_had(tmp_path: Path) -> None:
    write_seeds(tmp_path, "feddc", [reaching(2, 3), reaching(3, 3)])
    assert of(tmp_path).sentence == "FedDC: best accuracy 91.00 ± 0.00 %, rounds to 90 %: 2.5 ± 0.7 (2 seeds)."


def test_two_seeds_are_enough_to_tell_what_was_looked_at_first(tmp_path: Path) -> None:
    write_seeds(tmp_path, "fedavg", [[0.5, 0.910, 0.9200], [0.5, 0.91, 0.9205]])
    write_seeds(tmp_path, "feddc", [[0.5, 0.910, 0.9600], [0.5, 0.91, 0.9606]])
    assert of(tmp_path).sentence.startswith(
        "No difference in rounds to 90 % is shown with these 2 seeds; FedDC has the highest best accuracy: 96.03 ± 0.04"
    )


def test_seeds_that_cannot_be_paired_do_not_show_that_there_is_no_difference(tmp_path: Path) -> None:
    """FedAvg is the first in rounds, with seeds of its own; scores of the others have theirs in common."""
    for seed in (7, 8, 9):
        write_run(tmp_path / f"other-{seed}", method="fedavg", seed=seed, scores=[0.91, 0.92, 0.921])
    write_seeds(tmp_path, "feddyn", [[0.5, 0.91, 0.921], [0.5, 0.91, 0.922], [0.5, 0.91, 0.923]])
    write_seeds(tmp_path, "feddc", [[0.5, 0.91, 0.961], [0.5, 0.91, 0.963], [0.5, 0.91, 0.962]])
    assert of(tmp_path).sentence.startswith("FedDC has the highest best accuracy: 96.20 ± 0.10 %, 4.00 points above")


def test_a_method_alone_that_does_not_get_there_says_so_once(tmp_path: Path) -> None:
    write_seeds(tmp_path, "feddc", [reaching(9, 3)])
    assert of(tmp_path).sentence == "FedDC: best accuracy 50.00 %, rounds to 90 %: >3 (one seed)."


def test_two_seeds_of_which_none_is_common_are_not_one_seed(tmp_path: Path) -> None:
    for seed, method in enumerate(("fedavg", "fedavg", "feddc", "feddc")):
        write_run(tmp_path / str(seed), method=method, seed=seed, scores=reaching(2, 3))
    assert of(tmp_path).sentence.startswith("Fewer than two seeds in common: no claim.")


def test_four_names_are_written_out(tmp_path: Path) -> None:
    for method in ("fedavg", "fedprox", "scaffold", "feddc"):
        write_seeds(tmp_path, method, [reaching(7, 10)])
    assert of(tmp_path).cards[1].who == "FedAvg, FedProx, SCAFFOLD and FedDC"


def test_the_first_stands_beside_fedavg_or_else_the_nearest(tmp_path: Path) -> None:
    """Without FedAvg it was compared with the first in the list of methods, however far behind that was."""
    write_seeds(tmp_path, "scaffold", [reaching(n, 40) for n in (35, 35, 36)])
    write_seeds(tmp_path, "feddyn", [reaching(n, 40) for n in (15, 15, 16)])
    write_seeds(tmp_path, "feddc", [reaching(n, 40) for n in (5, 5, 6)])
    assert of(tmp_path).sentence == "FedDC reaches 90 % in the fewest rounds: 5.3 ± 0.6, 10 fewer than FedDyn."
    write_seeds(tmp_path, "fedavg", [reaching(n, 40) for n in (25, 25, 26)])
    assert of(tmp_path).sentence == "FedDC reaches 90 % in the fewest rounds: 5.3 ± 0.6, 20 fewer than FedAvg."


def test_two_seeds_come_before_one(tmp_path: Path) -> None:
    write_seeds(tmp_path, "feddc", [reaching(n, 30) for n in (5, 6)])
    write_seeds(tmp_path, "fedavg", [reaching(n, 30) for n in (20, 22)])
    write_seeds(tmp_path, "scaffold", [reaching(2, 30)])
    assert of(tmp_path).sentence.startswith(
        "FedDC reaches 90 % in the fewest rounds: 5.5 ± 0.7, 15.5 fewer than FedAvg."
    )


def test_no_run_reaches_the_target_only_where_none_does(tmp_path: Path) -> None:
    """It said so where most did, but not all seeds of the first method."""
    write_seeds(tmp_path, "fedavg", [reaching(n, 34) for n in (27, 99, 99)])
    write_seeds(tmp_path, "feddc", [reaching(n, 34) for n in (5, 6, 99)])
    found = of(tmp_path)
    assert found.sentence == "No difference in best accuracy is shown with these 3 seeds. 3 of 6 runs reach 90 %."
    assert [card.question for card in found.cards] == ["Best accuracy"]


def test_who_reaches_the_target_with_all_seeds_is_first(tmp_path: Path) -> None:
    """FedDC's third seed may need any number of rounds, however few the others took."""
    write_seeds(tmp_path, "fedavg", [reaching(n, 34) for n in (27, 28, 27)])
    write_seeds(tmp_path, "feddc", [reaching(n, 34) for n in (5, 6, 99)])
    found = of(tmp_path)
    assert found.sentence == "No difference in rounds to 90 % is shown with these 3 seeds."
    assert [(card.question, card.who) for card in found.cards[1:]] == [
        ("Rounds to 90 %", "FedAvg"),
        ("Moved to 90 %", "FedAvg"),
    ]
