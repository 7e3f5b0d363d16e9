"""Trains two networks on the digits with MXNet's Gluon, and prints how many images they read right.

    mxnet_digits.py FILE [SEEDS]

FILE has a line an image: 64 greys from 0 to 16, and the digit. The first 1,500 images are fitted,
the last 297 read. Networks and training are those of tensor/examples/digits_train.rs: 30 epochs,
batches of 32, a learning rate of 0.05 and a momentum of 0.9.
"""

import gzip
import statistics
import sys

import mxnet
import numpy
from mxnet import autograd, gluon, init, nd
from mxnet.gluon import nn

FIT, EPOCHS, BATCH = 1500, 30, 32


def within(inputs):
    """Weights and biases within one over the root of a unit's inputs."""
    bound = init.Uniform(inputs**-0.5)
    return {"weight_initializer": bound, "bias_initializer": bound}


def dense(units, inputs, activation=None):
    return nn.Dense(units, activation=activation, in_units=inputs, **within(inputs))


def convolution(filters, channels):
    return nn.Conv2D(filters, 3, padding=1, activation="relu", in_channels=channels, **within(9 * channels))


def perceptron():
    net = nn.Sequential()
    net.add(dense(32, 64, "tanh"), dense(10, 32))
    return net, (-1, 64)


def convolutional():
    net = nn.Sequential()
    net.add(convolution(8, 1), nn.MaxPool2D(2), convolution(16, 8), nn.MaxPool2D(2))
    net.add(dense(64, 64, "relu"), dense(10, 64))
    return net, (-1, 1, 8, 8)


def train(make, seed, pixels, labels):
    """How many of the last images a network reads right."""
    mxnet.random.seed(seed)
    random = numpy.random.RandomState(seed)
    net, shape = make()
    net.initialize()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.05, "momentum": 0.9})
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
    for make in (perceptron, convolutional):
        right = [train(make, seed, pixels, labels) for seed in range(int(seeds))]
        parameters = sum(numpy.prod(one.shape) for one in make()[0].collect_params().values())
        median = statistics.median_low(right)
        count = len(labels) - FIT
        print("%s, %d parameters: %s of %d right, median %d" % (make.__name__, parameters, right, count, median))


if __name__ == "__main__":
    main(*sys.argv[1:])
