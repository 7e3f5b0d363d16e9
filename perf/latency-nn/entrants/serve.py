"""What every entrant in Python shares: it takes a problem, and turns of measured calls.

The driver (`src/driver.rs`) writes a line of JSON and waits for the answer: a line of JSON, and as
many bytes as that says. Between turns an entrant sleeps in `readline`. What libraries print goes to
standard error.

An entrant is a function `make(problem)` that returns `step(data, labels) → result`. For inference
the result is the probabilities, copied to the host; labels are None. For training a step is a
forward pass, a backward pass and an update, all done when it returns. An epoch is many such steps.
`step.weights()` gives all weights as they lie in the file.
"""

import gc
import json
import os
import struct
import sys
import time

CORE = os.environ.get("LATENCY_NN_CORE")
if CORE:  # Before a library starts threads.
    os.sched_setaffinity(0, {int(CORE)})
ONE_THREAD = os.environ.get("LATENCY_NN_THREADS") == "1"

import numpy  # noqa: E402


class Skip(Exception):
    """The entrant has no such thing, and says why."""


def read_safetensors(path):
    """The arrays of a file, by name."""
    types = {"F32": "<f4", "I64": "<i8"}
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        rest = file.read()
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            array = numpy.frombuffer(rest[begin:end], types[entry["dtype"]])
            arrays[name] = array.reshape(entry["shape"]).copy()
    return arrays


class Problem:
    """A network, its first weights, and what it is to do."""

    def __init__(self, order):
        with open(order["networks"]) as file:
            networks = json.load(file)
        assert networks["initialiser"] == "uniform within 1/sqrt(inputs of a unit), weights and biases"
        assert networks["loss"] == "softmax cross-entropy, mean of the batch"
        self.training = networks["training"]
        (self.network,) = [one for one in networks["networks"] if one["name"] == order["network"]]
        self.layers, self.input = self.network["layers"], self.network["input"]
        self.task, self.batch = order["task"], order["batch"]
        arrays = read_safetensors(order["data"])
        count = sum(name.startswith("weight.") for name in arrays)
        self.weights = [arrays["weight.%d" % number] for number in range(count)]
        self.parameters = sum(weight.size for weight in self.weights)
        assert self.parameters == self.network["parameters"], self.parameters
        if self.task == "epoch":
            self.images, self.labels = arrays["images"], arrays["labels"].astype(numpy.int64)
            self.orders = arrays["orders"].astype(numpy.int64)
        else:
            shape = [-1, self.batch, *self.input]
            self.data = arrays["data"].reshape(shape)
            self.labels = arrays["labels"].reshape(-1, self.batch).astype(numpy.int64)

    def with_weights(self):
        """Each layer with its weight and bias, or with none."""
        weights = iter(self.weights)
        for layer in self.layers:
            has = layer["layer"] in ("Convolution", "FullyConnected")
            yield layer, (next(weights), next(weights)) if has else None


class Opened:
    """A problem that an entrant has taken."""

    def __init__(self, problem, make):
        self.problem, self.step, self.calls = problem, make(problem), 0

    def call(self):
        problem, number = self.problem, self.calls
        self.calls += 1
        if problem.task == "epoch":
            return self.epoch(problem.orders[number % len(problem.orders)])
        number %= len(problem.data)
        labels = problem.labels[number] if problem.task == "training" else None
        return self.step(problem.data[number], labels)

    def epoch(self, order):
        problem = self.problem
        if hasattr(self.step, "epoch"):
            return self.step.epoch(problem.images[order], problem.labels[order])
        for begin in range(0, len(order), problem.batch):
            chosen = order[begin : begin + problem.batch]
            self.step(problem.images[chosen], problem.labels[chosen])

    def compare(self, calls):
        for _ in range(calls):
            out = self.call()
        if self.problem.task == "inference":
            return numpy.ascontiguousarray(out, "<f4").tobytes()
        weights = [numpy.ascontiguousarray(weight, "<f4").ravel() for weight in self.step.weights()]
        return numpy.concatenate(weights).tobytes()

    def turn(self, warm, calls, milliseconds):
        call, clock = self.call, time.perf_counter_ns
        start, most = clock(), milliseconds * 1_000_000
        for _ in range(warm):
            call()
            if clock() > start + most // 4:
                break
        times = []
        while len(times) < calls:
            began = clock()
            call()
            ended = clock()
            times.append(ended - began)
            if ended > start + most:
                break
        return numpy.minimum(times, 2**32 - 1).astype("<u4").tobytes()


def serve(make, version):
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    opened = {}
    for line in iter(sys.stdin.buffer.readline, b""):
        order, raw = json.loads(line), b""
        try:
            if order["do"] == "open":
                problem = Problem(order)
                opened[order["id"]] = Opened(problem, make)
                answer = {"parameters": problem.parameters, "version": version}
                gc.collect()
                gc.freeze()
            elif order["do"] == "compare":
                raw = opened[order["id"]].compare(order["calls"])
                answer = {"bytes": len(raw)}
            else:
                raw = opened[order["id"]].turn(order["warm"], order["calls"], order["ms"])
                answer = {"bytes": len(raw)}
        except Skip as why:
            answer = {"skip": str(why)}
        answers.write(json.dumps(answer).encode() + b"\n" + raw)
        answers.flush()
    os._exit(0)  # Libraries complain at their end.
