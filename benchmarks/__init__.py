"""How long a local step takes: a plain loop, our executors, and the least that the machine allows.

python -m benchmarks                      all workloads, about five minutes on two cores
python -m benchmarks fcn cnn --repeats 5  some of them
python -m benchmarks --json results.json  the numbers, also as JSON
"""
