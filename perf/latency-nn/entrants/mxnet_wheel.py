"""MXNet's wheel: `mxnet_wheel.py gluon | executor`. On one thread its naive engine runs all."""

import os
import sys

import serve

if serve.ONE_THREAD:
    os.environ["MXNET_ENGINE_TYPE"] = "NaiveEngine"

import mxnet  # noqa: E402
from mxnet import autograd, gluon, nd  # noqa: E402
from mxnet.gluon import nn  # noqa: E402

KIND = sys.argv[1]


def network(problem):
    net = nn.HybridSequential()
    made = []
    for layer, weights in problem.with_weights():
        kind = layer["layer"]
        if kind == "Activation":
            net.add(nn.Activation(layer["act_type"]))
        elif kind == "Pooling":
            assert layer["pool_type"] == "max"
            net.add(nn.MaxPool2D(layer["kernel"], layer["stride"]))
        elif kind == "Convolution":
            inputs = weights[0].shape[1]
            net.add(nn.Conv2D(layer["num_filter"], layer["kernel"], padding=layer["pad"], in_channels=inputs))
        else:
            net.add(nn.Dense(layer["num_hidden"], in_units=weights[0].shape[1]))
        if weights:
            made.append((net[-1], weights))
    net.initialize()
    for layer, (weight, bias) in made:
        layer.weight.set_data(nd.array(weight))
        layer.bias.set_data(nd.array(bias))
    net.hybridize(static_alloc=True, static_shape=True)
    return net, [parameter for layer, _ in made for parameter in (layer.weight, layer.bias)]


def symbol(problem):
    at, arrays = mxnet.sym.Variable("data"), {}
    for number, (layer, weights) in enumerate(problem.with_weights()):
        parameters = {key: value for key, value in layer.items() if key != "layer"}
        name = "%s%d" % (layer["layer"].lower(), number)
        at = getattr(mxnet.sym, layer["layer"])(at, name=name, **parameters)
        for suffix, weight in zip(("_weight", "_bias"), weights or ()):
            arrays[name + suffix] = nd.array(weight)
    return at, arrays


def executor(problem):
    """A bound symbol. It trains by operators that update the weights, one for each."""
    rates = problem.training
    at, arrays = symbol(problem)
    if problem.task == "inference":
        arrays["data"] = nd.zeros([problem.batch, *problem.input])
        bound = mxnet.sym.softmax(at).bind(mxnet.cpu(), arrays, grad_req="null")

        def step(data, _):
            arrays["data"][:] = data
            return bound.forward(is_train=False)[0].asnumpy()

        return step
    out = mxnet.sym.SoftmaxOutput(at, mxnet.sym.Variable("label"), normalization="batch")
    names = list(arrays)
    gradients = {name: nd.zeros(array.shape) for name, array in arrays.items()}
    momenta = {name: nd.zeros(array.shape) for name, array in arrays.items()}
    bound = {}

    def bind(size):
        inputs = {"data": nd.zeros([size, *problem.input]), "label": nd.zeros([size])}
        requests = {name: "write" if name in gradients else "null" for name in out.list_arguments()}
        return out.bind(mxnet.cpu(), {**arrays, **inputs}, gradients, grad_req=requests), inputs

    def step(data, labels):
        size = len(data)
        if size not in bound:
            bound[size] = bind(size)
        network, inputs = bound[size]
        inputs["data"][:] = data
        inputs["label"][:] = labels
        network.forward(is_train=True)
        network.backward()
        for name in names:
            nd.sgd_mom_update(
                arrays[name], gradients[name], momenta[name], out=arrays[name], lr=rates["rate"],
                momentum=rates["momentum"],
            )
        nd.waitall()

    step.weights = lambda: [arrays[name].asnumpy() for name in names]
    return step


def with_gluon(problem):
    rates = problem.training
    net, parameters = network(problem)
    if problem.task == "inference":
        return lambda data, _: nd.softmax(net(nd.array(data))).asnumpy()
    loss_of = gluon.loss.SoftmaxCrossEntropyLoss()
    loss_of.hybridize(static_alloc=True, static_shape=True)
    momentum = {"learning_rate": rates["rate"], "momentum": rates["momentum"]}
    trainer = gluon.Trainer(net.collect_params(), "sgd", momentum)

    def step(data, labels):
        with autograd.record():
            loss = loss_of(net(nd.array(data)), nd.array(labels))
        loss.backward()
        trainer.step(len(data))
        nd.waitall()

    step.weights = lambda: [parameter.data().asnumpy() for parameter in parameters]
    return step


serve.serve(executor if KIND == "executor" else with_gluon, mxnet.__version__)
