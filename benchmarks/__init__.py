"""How long a local step takes: a plain loop, our executors, and the least that the machine allows.

python -m benchmarks                      all workloads, about six minutes on two cores, with 3.2 GB of temporary files
python -m benchmarks fcn cnn --repeats 5  some of them
python -m benchmarks --json results.json  the numbers, also as JSON
python -m benchmarks.profile fcn          where the time of a step goes, by operation
"""
