"""PyTorch's side of `tensor/examples/kernels.rs`: the same calls, on so many threads.

    python kernels.py 1
"""

import sys
import time

import torch
import torch.nn.functional as F

SIDE, CALLS = 1024, 15


def median(name, call):
    times = []
    for _ in range(CALLS + 3):
        begin = time.perf_counter()
        call()
        times.append((time.perf_counter() - begin) * 1e6)
    print(f"{name}\t{sorted(times[3:])[CALLS // 2]:.1f}")


def main():
    torch.set_num_threads(int(sys.argv[1]))
    torch.set_grad_enabled(False)
    values = ((torch.arange(SIDE * SIDE) * 7919) % 1000).float() / 500 - 1

    def of(*shape):
        return values[: torch.Size(shape).numel()].reshape(shape).clone()

    x, y, total = of(SIDE, SIDE), of(SIDE, SIDE), of(SIDE, SIDE)
    row, column, small, images = of(SIDE), of(SIDE, 1), of(256, 256), of(16, 16, 32, 32)
    places = (torch.arange(SIDE) * 37) % SIDE
    median("add", lambda: x + y)
    median("add in place", lambda: total.add_(y))
    median("add a row", lambda: x + row)
    median("add a column", lambda: x + column)
    median("multiply by a number", lambda: x * 1.5)
    median("exp", x.exp)
    median("log of abs", lambda: x.abs().log())
    median("tanh", x.tanh)
    median("sigmoid", x.sigmoid)
    median("relu", x.relu)
    median("gelu", lambda: F.gelu(x))
    median("greater", lambda: x > y)
    median("where", lambda: torch.where(x > 0, x, y))
    median("sum of all", x.sum)
    median("sum over axis 0", lambda: x.sum(0))
    median("sum over axis 1", lambda: x.sum(1))
    median("max over axis 1", lambda: x.amax(1))
    median("softmax", lambda: x.softmax(-1))
    median("log softmax", lambda: x.log_softmax(-1))
    median("layer norm", lambda: F.layer_norm(x, (SIDE,), row, row))
    median("transpose, copied", lambda: x.t().contiguous())
    median("transpose, added", lambda: x.t() + y)
    median("columns, copied", lambda: x[:, 100:900].contiguous())
    median("take rows", lambda: x[places])
    median("concat", lambda: torch.cat([x, y], 1))
    median("to f64", x.double)
    median("to f16", x.half)
    median("sort rows", lambda: x.sort(-1))
    median("topk of 8", lambda: x.topk(8, -1))
    median("one hot", lambda: F.one_hot(places, SIDE).float())
    median("dot, 256", lambda: small @ small)
    median("dot, 1024", lambda: x @ y)
    median("dot, transposed", lambda: x @ y.t())
    median("dropout", lambda: F.dropout(x, 0.5, True))
    median("max pool", lambda: F.max_pool2d(images, 2))
    median("normal", lambda: torch.randn(SIDE, SIDE))
    median("uniform", lambda: torch.rand(SIDE, SIDE))


main()
