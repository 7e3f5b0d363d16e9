"""PyTorch: `pytorch.py eager | traced | compiled`. Eager and compiled train too."""

import sys

import serve
import torch
from torch import nn

KIND = sys.argv[1]
if serve.ONE_THREAD:
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)


def network(problem):
    layers, shape = [], torch.zeros(1, *problem.input)
    for layer, weights in problem.with_weights():
        kind = layer["layer"]
        if kind == "Activation":
            made = {"relu": nn.ReLU, "tanh": nn.Tanh}[layer["act_type"]]()
        elif kind == "Pooling":
            assert layer["pool_type"] == "max"
            made = nn.MaxPool2d(layer["kernel"], layer["stride"])
        elif kind == "Convolution":
            made = nn.Conv2d(shape.shape[1], layer["num_filter"], layer["kernel"], padding=layer["pad"])
        else:
            if shape.dim() > 2:
                layers.append(nn.Flatten())
                shape = layers[-1](shape)
            made = nn.Linear(shape.shape[1], layer["num_hidden"])
        if weights:
            made.weight.data, made.bias.data = map(torch.from_numpy, weights)
        layers.append(made)
        with torch.no_grad():
            shape = made(shape)
    return nn.Sequential(*layers)


def inference(problem):
    net = nn.Sequential(network(problem), nn.Softmax(dim=1)).eval()
    example = torch.from_numpy(problem.data[0])
    if KIND == "traced":
        with torch.no_grad():
            net = torch.jit.optimize_for_inference(torch.jit.freeze(torch.jit.trace(net, example)))
    elif KIND == "compiled":
        net = torch.compile(net)

    def step(data, _):
        with torch.inference_mode():
            return net(torch.from_numpy(data)).numpy()

    for _ in range(5):
        step(problem.data[0], None)
    return step


def training(problem):
    if KIND == "traced":
        raise serve.Skip("traced networks are for inference")
    net, loss_of = network(problem), nn.CrossEntropyLoss()
    rates = problem.training
    sgd = torch.optim.SGD(net.parameters(), lr=rates["rate"], momentum=rates["momentum"])

    def both(data, labels):
        return loss_of(net(data), labels)

    if KIND == "compiled":
        both = torch.compile(both, dynamic=False)

    def step(data, labels):
        loss = both(torch.from_numpy(data), torch.from_numpy(labels))
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        return loss.item()

    if KIND == "compiled":  # What is compiled at the first call does not move the weights.
        sizes = {problem.batch}
        if problem.task == "epoch":
            sizes.add(len(problem.orders[0]) % problem.batch)
        for size in sizes - {0}:
            both(torch.zeros(size, *problem.input), torch.zeros(size, dtype=torch.int64)).backward()
    step.weights = lambda: [weight.detach().numpy() for weight in net.parameters()]
    return step


serve.serve(lambda problem: (inference if problem.task == "inference" else training)(problem), torch.__version__)
