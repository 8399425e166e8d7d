"""FLamby's heart-disease benchmark (owkin/FLamby, fed_heart_disease): its settings, its published figures, and ours.

Their "Pooled Test" puts all hospitals' patients on one scale although the model is trained on each hospital's own. At
their learning rate of 0.001 FedProx equals FedAvg in every figure, so it cannot tell methods apart. Switzerland has no
healthy patient to train on, and their methods score less than always predicting a hospital's majority class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import NamedTuple

from ..data.natural import HOSPITALS
from ..study.cells import Cell, Number
from ..study.config import resolve

MAJORITY = (0.516, 0.538, 0.629, 0.938, 0.778)
"""Always the most frequent class of that test set: all patients, then hospital by hospital."""

ABOUT = """## How to read it

FLamby is owkin/FLamby, `fed_heart_disease`; its figures are means over seeds 42 to 46. Settings are FLamby's: a
linear model with 13 inputs, batches of 4, 15 rounds of 100 updates in every hospital, SGD, no decay, all hospitals in
every round.

- **Pooled test.** FLamby's "all patients" column standardises the test patients by the mean and deviation of all
  training patients, although each hospital standardised its training data by itself. The columns of the hospitals use
  each hospital's own scale. `--data heart-disease` (without `:test=pooled`) uses that scale for all patients too.
- **Switzerland.** All 30 of its training patients are ill, and 15 of its 16 test patients. A constant answer scores
  .938.
- **The baseline.** A mean of ours that is below the majority class of its test set is marked with an asterisk. In
  FLamby's figures FedAvg is below it in Switzerland and VA Long Beach.
- **The learning rate is too small to compare methods.** At .001, no method has converged after 15 rounds. FedProx
  equals FedAvg in all 25 published figures, and SCAFFOLD does in 23. This is not evidence that the methods are equal.
- **Cyclic is left out.** FLamby's code never passes the weights on: its figures are those of Cleveland trained alone.
- **SCAFFOLD has two rows.** FLamby's version takes both of its means, of gradients and of models, *weighted by
  patients*: `scaffold:form=weighted` here. The method as published (Karimireddy et al.) takes plain means over
  clients, in which Switzerland's 30 patients count as much as Cleveland's 199: the row "plain means". The two rows
  differ in that weighting only.
"""


class PublishedRow(NamedTuple):
    """A method, its local learning rate, and FLamby's mean over seeds 42 to 46: pooled, then each hospital."""

    method: str
    lr: float
    published: tuple[float, ...] = ()


_MOMENTS = "beta1=0.9:beta2=0.999:tau=1e-8"
ROWS = {
    "FedAvg": PublishedRow("fedavg", 0.001, (0.748, 0.731, 0.719, 0.650, 0.640)),
    "FedProx": PublishedRow("fedprox:mu=0.01", 0.001, (0.748, 0.731, 0.719, 0.650, 0.640)),
    "SCAFFOLD": PublishedRow("scaffold:form=weighted", 0.001, (0.748, 0.727, 0.719, 0.650, 0.640)),
    "SCAFFOLD, plain means": PublishedRow("scaffold", 0.001),
    "FedAdam": PublishedRow(f"fedadam:lr=0.01:{_MOMENTS}", 0.01, (0.779, 0.752, 0.746, 0.738, 0.667)),
    "FedYogi": PublishedRow(f"fedyogi:lr=0.01:{_MOMENTS}", 0.003162, (0.779, 0.760, 0.753, 0.738, 0.676)),
    "FedAdagrad": PublishedRow(
        "fedadagrad:lr=0.316228:beta1=0.9:tau=1e-8", 0.003162, (0.779, 0.760, 0.753, 0.738, 0.676)
    ),
    "FedDyn": PublishedRow("feddyn:alpha=0.01", 0.001),
    "FedDC": PublishedRow("feddc:alpha=0.01", 0.001),
}


def heart() -> Iterator[Cell]:
    """FLamby's four hospitals, beside its published figures: run it with --seeds 42,43,44,45,46."""
    same = {"model": "linear:zeros=false", "rounds": 15, "steps": 100, "batch_size": 4, "evaluate_every": 15}
    same |= {"lr_decay": 1.0, "weight_decay": 0.0, "clip_norm": "none", "data": "heart-disease:test=pooled"}
    same |= {"executor": "in-process"}  # four small clients: a process each would wait for the others
    for name, row in ROWS.items():
        config = resolve({**same, "method": row.method, "lr": row.lr})
        published = (Number(100 * row.published[0]),) if row.published else (None,)
        yield Cell("heart-disease", name, "pooled", config, published=published)


@dataclass(frozen=True)
class Section:
    """A table with what there is to know about it, for the terminal and for a page."""

    rows: Sequence[Sequence[str]]
    note: str
    about: str

    def text(self) -> str:
        widths = [max(len(row[i]) for row in self.rows) for i in range(len(self.rows[0]))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in self.rows
        ]
        return "\n".join([*lines, self.note])

    def markdown(self) -> str:
        head, *rows = ([_plain(cell) for cell in row] for row in self.rows)
        lines = [head, ["---"] * len(head), *rows]
        table = "\n".join(f"| {' | '.join(row)} |" for row in lines)
        return f"## Per hospital\n\n{table}\n\n{_plain(self.note)}\n\n{self.about}"


def _plain(text: str) -> str:
    """Text that Markdown takes as it is, in a table too."""
    return text.replace("|", "/").replace("*", "\\*")


def section(scores: Mapping[str, Sequence[Sequence[float]]]) -> Section:
    """Ours, FLamby's after a bar: on all patients, and in each hospital; what is below its majority class is marked.

    ``scores`` has for each row a list for each seed: all patients', then each hospital's.
    """
    rows: list[list[str]] = [["", "all patients", *HOSPITALS]]
    for name, row in ROWS.items():
        columns = list(zip(*scores.get(name, ()), strict=True))
        published = row.published or (None,) * len(columns)
        cells = [_entry(*each) for each in zip(columns, published, MAJORITY, strict=True)] if columns else []
        rows += [[name, *cells]] if cells else []
    rows.append(["majority class", *(f"{value:.3f}" for value in MAJORITY)])
    counts = sorted({len(found) for found in scores.values()}) or [0]
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    ours = (
        f"ours, mean of {seeds} seed{'s' if counts != [1] else ''}{' ± standard deviation' if counts[-1] > 1 else ''}"
    )
    note = f"accuracy: {ours} | FLamby's, mean of 5   * mean below the majority class"
    return Section(rows, note, ABOUT)


def _entry(found: Sequence[float], published: float | None, majority: float) -> str:
    spread = f" ± {stdev(found):.3f}" if len(found) > 1 else ""
    mark, beside = "*" if mean(found) < majority else "", "" if published is None else f" | {published:.3f}"
    return f"{mean(found):.3f}{mark}{spread}{beside}"
