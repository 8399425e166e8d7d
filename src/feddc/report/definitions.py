"""What the words of a report mean: one click away from where they stand."""

from __future__ import annotations

DEFINITIONS = {
    "best": "**Best**: the best score of any evaluated round, on the test set. It flatters: a lucky round counts.",
    "last": "**Last 10**: the mean of the last ten evaluations of a run: what is left when luck is averaged out.",
    "clients": "**Clients' mean, worst tenth**: the global model on what each client holds out, in the last round "
    "that was scored there: the plain mean over clients, and the mean of the worst tenth of them (at least one).",
    "deviation": "**±**: the standard deviation over seeds (n − 1). With one seed there is none.",
    "difference": "**A difference is shown** where p < 0.05 in a two-sided paired t-test over seeds, after Holm's "
    "correction: for all pairs of methods where the best of them is chosen, for the rows in a table of differences. "
    "The 95 % interval is that of the single comparison. Bold is what is shown to be ahead of all others. Runs that "
    "have not finished, or diverged, are not judged, nor is a method that looks ahead with seeds that missed the "
    "target.",
    "rounds": "**Rounds**: the first evaluated round that reaches the target. >N: not reached in N rounds. In a "
    "comparison a method with such a seed is never first. It may be behind: the seed counts as if its next evaluation "
    "got there, so the difference is at least that.",
    "speedup": "**Speed-up**: FedAvg's mean rounds over the method's, over the seeds that both have; ± is the "
    "deviation of that ratio from seed to seed. Where seeds did not get there it is a bound: > or <.",
    "moved": "**Moved**: bytes sent in both directions, all clients together.",
    "epsilon": "**ε**: what the run spent of its privacy budget by its last round, for the δ in its settings (1e-5 if "
    "none is given): the smaller, the less the model tells about any single client.",
    "time": "**Time**: seconds by the wall clock of the machine that ran it. What else that machine did is in it.",
    "seeds": "**Seeds**: runs that came to their end; diverged and unfinished ones are named.",
}
"""Markdown's ** marks the word that is defined."""
