"""Trains two networks on the digits with MXNet's Gluon, and prints how many images they read right.

    mxnet_digits.py FILE [SEEDS]

FILE has a line an image: 64 greys from 0 to 16, and the digit. The first 1,500 images are fitted,
the last 297 read. Networks and training are those of tensor/examples/digits_train.rs, from the same
file, networks.json.
"""

import gzip
import json
import os
import statistics
import sys

import mxnet
import numpy
from mxnet import autograd, gluon, init, nd
from mxnet.gluon import nn

with open(os.path.join(os.path.dirname(__file__), "../tensor/examples/nets/networks.json")) as file:
    NETWORKS = json.load(file)
TRAINING = NETWORKS["training"]
FIT, EPOCHS, BATCH = 1500, TRAINING["epochs"], TRAINING["batch"]


def within(inputs):
    """Weights and biases within one over the root of a unit's inputs."""
    bound = init.Uniform(inputs**-0.5)
    return {"weight_initializer": bound, "bias_initializer": bound}


def build(plan):
    """A network from its layers, and the shape of its images."""
    net, shape = nn.Sequential(), nd.zeros([1, *plan["input"]])
    for layer in plan["layers"]:
        kind = layer["layer"]
        if kind == "Activation":
            net.add(nn.Activation(layer["act_type"]))
        elif kind == "Pooling":
            net.add(nn.MaxPool2D(layer["kernel"], layer["stride"]))
        elif kind == "Convolution":
            (high, wide), channels = layer["kernel"], shape.shape[1]
            sizes = {"padding": layer["pad"], "in_channels": channels}
            net.add(nn.Conv2D(layer["num_filter"], layer["kernel"], **sizes, **within(high * wide * channels)))
        else:
            net.add(nn.Dense(layer["num_hidden"], in_units=shape.size, **within(shape.size)))
        net[-1].initialize()
        shape = net[-1](shape)
    return net, (-1, *plan["input"])


def train(plan, seed, pixels, labels):
    """How many of the last images a network reads right."""
    mxnet.random.seed(seed)
    random = numpy.random.RandomState(seed)
    net, shape = build(plan)
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    rates = {"learning_rate": TRAINING["rate"], "momentum": TRAINING["momentum"]}
    trainer = gluon.Trainer(net.collect_params(), "sgd", rates)
    for _ in range(EPOCHS):
        order = random.permutation(FIT)
        for chosen in numpy.split(order, range(BATCH, FIT, BATCH)):
            with autograd.record():
                out = net(nd.array(pixels[chosen].reshape(shape)))
                loss = loss_of(out, nd.array(labels[chosen]))
            loss.backward()
            trainer.step(len(chosen))
    read = net(nd.array(pixels[FIT:].reshape(shape))).asnumpy().argmax(axis=1)
    return int((read == labels[FIT:]).sum())


def main(path, seeds=5):
    with gzip.open(path, "rt") as file:
        table = numpy.loadtxt(file, delimiter=",", dtype="float32")
    pixels, labels = table[:, :64] / 16, table[:, 64]
    for plan in (one for one in NETWORKS["networks"] if one["for"] == "digits"):
        right = [train(plan, seed, pixels, labels) for seed in range(int(seeds))]
        parameters = sum(numpy.prod(one.shape) for one in build(plan)[0].collect_params().values())
        median = statistics.median_low(right)
        count = len(labels) - FIT
        print("%s, %d parameters: %s of %d right, median %d" % (plan["name"], parameters, right, count, median))


if __name__ == "__main__":
    main(*sys.argv[1:])
