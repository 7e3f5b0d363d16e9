"""The calls that mxnet_reference.py makes: operators, parameters, shapes, and how inputs are drawn.

Each input is drawn from a seed that the operator, its parameters and the place give, so a new case
changes no other. Layers are in mxnet_layers.py, and operators that move or pick elements in
mxnet_moves.py.
"""

import zlib

import numpy


class Draw:
    """How the elements of an array are drawn."""

    def __init__(self, make, dtype="float32"):
        self.make, self.dtype = make, dtype

    def values(self, random, shape):
        return numpy.asarray(self.make(random, shape), self.dtype).reshape(shape)


def between(low, high):
    return Draw(lambda random, shape: random.uniform(low, high, shape))


def below(end, dtype="float32"):
    """Whole numbers from 0 on."""
    return Draw(lambda random, shape: random.randint(0, end, shape), dtype)


def among(values, dtype="float32"):
    """Some of these values, all of them in turn if there is room."""
    return Draw(lambda random, shape: random.permutation(numpy.resize(values, shape)), dtype)


def apart(low, high):
    """Numbers of which no two are near each other."""

    def make(random, shape):
        count = int(numpy.prod(shape))
        return random.permutation(low + (high - low) * (numpy.arange(count) + 0.5) / count)

    return Draw(make)


UNIT = between(-1, 1)


class Case:
    """A call, or several steps of them with new inputs and the same states.

    `inputs` has names with shapes and draws, `states` too. `gradients` are the inputs by which
    there is one. If the case `carries`, then the first input of a later step is the output before.
    Only the first `outputs` are kept: what MXNet leaves in others may be undefined. `about` is the
    name by which tensor/tests/mxnet.rs knows a case where the crate differs.
    """

    def __init__(
        self,
        name,
        inputs,
        gradients=None,
        states=(),
        steps=1,
        train=True,
        carries=False,
        outputs=None,
        about="-",
        **parameters
    ):
        self.name, self.parameters, self.outputs, self.about = name, parameters, outputs, about
        self.inputs = [(one + (UNIT,))[:3] for one in inputs]
        self.gradients = [one[0] for one in inputs] if gradients is None else gradients
        self.steps, self.is_train, self.carries = steps, train, carries
        shapes = [one[1] for one in self.inputs]
        self.key = "%s %s %s %s" % (name, sorted(parameters.items()), shapes, train)
        self.states = {}
        for at, (state, shape, draw) in enumerate(states):
            self.states[state] = draw.values(self.random("state", at), shape)

    def random(self, *place):
        return numpy.random.RandomState(zlib.crc32(("%s %s" % (self.key, place)).encode()))

    def draw(self, step):
        """The inputs of a step by name."""
        return {
            name: draw.values(self.random("input", step, at), shape)
            for at, (name, shape, draw) in enumerate(self.inputs)
        }

    def head(self, step, at, shape, dtype):
        """The gradient by an output."""
        values = self.random("head", step, at).uniform(-1, 1, shape)
        return values.astype(dtype)


def one(name, size, draw=UNIT, **more):
    """A case of one input."""
    return Case(name, [("data", size, draw)], **more)


# Where functions of one array are defined, if that is not everywhere.
POSITIVE = "reciprocal sqrt rsqrt cbrt rcbrt log log2 log10 log1p gamma gammaln".split()
WITHIN = "arcsin arccos arctanh".split()
EVERYWHERE = (
    "negative abs sign rint ceil floor trunc fix round square exp expm1 sin cos tan arctan sinh cosh "
    "tanh arcsinh degrees radians relu sigmoid softsign _copy BlockGrad"
).split()


def unary():
    for name in POSITIVE:
        yield one(name, (4, 9), between(0.1, 4))
        yield one(name, (300,), between(0.5, 30 if name.startswith("gamma") else 2000))
    for name in WITHIN:
        yield one(name, (4, 9), between(-0.98, 0.98))
    yield one("arccosh", (4, 9), between(1.05, 9))
    for name in EVERYWHERE:
        yield one(name, (4, 9), between(-3, 3))
        yield one(name, (2, 3, 50), between(-9, 9))
        # Ties of rounding, kinks, and the sign of 0.
        yield one(name, (12,), among([-2.5, -1.5, -1, -0.5, -0.0, 0, 0.5, 1, 1.5, 2.5, -1e-3, 3.5]))
    for name in "cbrt rcbrt gamma gammaln".split():
        yield one(name, (9,), among([-3.7, -2.3, -1.6, -0.4, -0.2, 0.3, 1, 2, 5]))
    for scalar in (1, 2.5):
        yield one("smooth_l1", (4, 9), between(-2, 2), scalar=scalar)
    for dtype in "float64 float16 int32 int8 uint8 int64".split():
        yield one("Cast", (3, 4), apart(0.2, 100), gradients=[], dtype=dtype)
    yield one("Cast", (3, 4), dtype="float32")
    for act_type in "relu sigmoid tanh softrelu softsign".split():
        yield one("Activation", (3, 7), between(-4, 4), act_type=act_type)
        yield one("Activation", (2, 3, 4, 5), between(-30, 30), act_type=act_type)


BINARY = "power maximum minimum hypot equal not_equal greater greater_equal lesser lesser_equal".split()
ARITHMETIC = "add sub mul div".split()
SCALARS = "plus minus mul div".split()
SHAPES = [((2, 3), (1, 3)), ((2, 1, 4), (1, 3, 1)), ((3, 4), (3, 4)), ((1,), (5,)), ((2, 3, 4, 2), (1, 3, 1, 1))]


def binary():
    def two(name, lhs, rhs):
        is_truth = any(name.endswith(kind) for kind in BINARY[4:])
        # Whole numbers are often equal to each other.
        draw = below(3) if is_truth or "imum" in name else between(0.3, 2)
        return Case(name, [("lhs", lhs, draw), ("rhs", rhs, draw)], gradients=[] if is_truth else None)

    for name in ARITHMETIC:
        yield two("elemwise_" + name, (3, 5), (3, 5))
        yield two("elemwise_" + name, (300,), (300,))
    for name in BINARY:
        yield two("_" + name, (3, 5), (3, 5))
    for name in ARITHMETIC + BINARY:
        for lhs, rhs in SHAPES:
            yield two("broadcast_" + name, lhs, rhs)
    for name in SCALARS + BINARY + "rminus rdiv rpower".split():
        is_truth = name in BINARY[4:]
        for scalar in (2, 1.25):
            draw = among([1, 1.25, 1.5, 2, 2.75]) if is_truth or "imum" in name else between(0.3, 2)
            yield one("_%s_scalar" % name, (3, 5), draw, gradients=[] if is_truth else None, scalar=scalar)


def reductions():
    forms = [{}, {"axis": 1}, {"axis": (0, -1), "keepdims": True}, {"axis": -2, "keepdims": True}]
    for name in "sum mean prod max min norm".split():
        draw = between(0.6, 1.4) if name == "prod" else apart(-2, 3)
        for form in forms + ([] if name == "norm" else [{"axis": 1, "exclude": True}]):
            yield one(name, (2, 3, 4), draw, **form)
        yield one(name, (3, 300), between(0.97, 1.03) if name == "prod" else apart(-2, 3), axis=1)
    for name in ("max", "min"):
        yield one(name, (4, 6), below(3), axis=1)
    for name in ("sum", "mean"):
        yield one(name, (40, 50), between(-1, 2))
    for name in ("argmax", "argmin"):
        for form in ({}, {"axis": 0}, {"axis": 1}, {"axis": -1, "keepdims": True}):
            yield one(name, (3, 4, 5), apart(-1, 1), gradients=[], **form)
        yield one(name, (4, 6), below(3), gradients=[], axis=1)
    yield one("broadcast_to", (2, 1, 3), shape=(2, 4, 3))
    yield one("broadcast_to", (1, 1), shape=(3, 5))
    yield one("broadcast_to", (2, 1), about="size-0", shape=(0, 3))


def products():
    def two(name, lhs, rhs, **parameters):
        return Case(name, [("lhs", lhs), ("rhs", rhs)], **parameters)

    yield two("dot", (4, 3), (3, 5))
    yield two("dot", (3, 4), (3, 5), transpose_a=True)
    yield two("dot", (4, 3), (5, 3), transpose_b=True)
    yield two("dot", (3, 4), (5, 3), transpose_a=True, transpose_b=True)
    yield two("dot", (7,), (7,))
    yield two("dot", (2, 3, 4), (4, 5))
    yield two("dot", (2, 3, 4), (4, 3, 2))
    yield two("dot", (37, 130), (130, 41))
    yield two("batch_dot", (3, 4, 2), (3, 2, 5))
    yield two("batch_dot", (3, 2, 4), (3, 2, 5), transpose_a=True)
    yield two("batch_dot", (3, 4, 2), (3, 5, 2), transpose_b=True)
    yield two("batch_dot", (3, 2, 4), (3, 5, 2), transpose_a=True, transpose_b=True)

    def dense(data, weight, bias=(), **parameters):
        bias = [("bias", bias)] if bias else []
        return Case("FullyConnected", [("data", data), ("weight", weight)] + bias, num_hidden=weight[0], **parameters)

    yield dense((4, 3), (5, 3), (5,))
    yield dense((4, 3, 2), (5, 6), (5,))
    yield dense((4, 3), (5, 3), no_bias=True)
    yield dense((4, 3, 2), (5, 2), (5,), flatten=False)
    yield dense((33, 64), (32, 64), (32,))


def updates():
    def update(name, states, steps=4, **parameters):
        shape = (4, 7)
        states = [(state, shape, between(0, 0)) for state in states]
        inputs = [("weight", shape), ("grad", shape, between(-2, 2))]
        return Case(name, inputs, gradients=[], states=states, steps=steps, carries=True, **parameters)

    extras = [{}, {"wd": 0.01}, {"wd": 0.1, "rescale_grad": 0.25, "clip_gradient": 0.3}]
    for extra in extras:
        yield update("sgd_update", [], lr=0.1, **extra)
        yield update("sgd_mom_update", ["mom"], lr=0.1, momentum=0.9, **extra)
        yield update("nag_mom_update", ["mom"], lr=0.1, momentum=0.9, **extra)
        yield update("adam_update", ["mean", "var"], lr=0.01, **extra)
        yield update("rmsprop_update", ["n"], lr=0.01, gamma1=0.9, **extra)
        yield update("ftrl_update", ["z", "n"], lr=0.1, **extra)
    yield update("adam_update", ["mean", "var"], lr=0.02, beta1=0.7, beta2=0.9, epsilon=1e-4)
    yield update("rmsprop_update", ["n"], lr=0.02, epsilon=1e-3, clip_weights=0.5)
    yield update("ftrl_update", ["z", "n"], steps=8, lr=0.5, lamda1=1.0, beta=0.1, wd=0.01)


# What functions have of their own: numbers that are none, that have no end, zeros of both signs,
# the least number and one that is almost the greatest.
SPECIAL = [numpy.nan, numpy.inf, -numpy.inf, 0.0, -0.0, 1, -1, 1e-45, -3e38, 0.5]
# Operators that MXNet has for whole numbers too, and this crate has not.
OF_FLOATS = "div power hypot".split()
# Functions that MXNet computes in float32 also of other numbers.
IN_SINGLE = "gamma gammaln degrees radians".split()


def typed(draw, dtype):
    return Draw(draw.make, dtype)


def specials():
    """Every element-wise operator on special numbers, and on other types than float32."""
    several = {"float64": between(0.1, 4), "float16": between(0.3, 4)}
    for name in POSITIVE + WITHIN + ["arccosh"] + EVERYWHERE:
        about = "nan" if name == "sign" else "-"
        yield one(name, (10,), among(SPECIAL), gradients=[], about=about)
        for dtype, draw in several.items():
            if name in WITHIN:
                draw = between(0.1, 0.9)
            if name == "arccosh":
                draw = between(1.1, 4)
            about = "double" if name in IN_SINGLE and dtype == "float64" else "-"
            yield one(name, (4, 9), typed(draw, dtype), about=about)
    yield one("_copy", (12,), typed(between(-90, 90), "int32"), gradients=[])
    for kind in ARITHMETIC + BINARY:
        name = "broadcast_" + kind
        is_truth = kind in BINARY[4:]
        every = Draw(lambda random, shape: SPECIAL)
        yield Case(name, [("lhs", (10, 1), every), ("rhs", (1, 10), every)], gradients=[])
        for dtype in "float64 float16 int32".split():
            draw = below(4, dtype) if is_truth or "imum" in kind else typed(between(0.5, 4), dtype)
            if dtype == "int32" and kind in OF_FLOATS:
                continue
            if dtype == "int32" and kind in ARITHMETIC:
                draw = Draw(lambda random, shape: random.randint(1, 30, shape), dtype)
            gradients = [] if is_truth or dtype == "int32" else None
            yield Case(name, [("lhs", (3, 4), draw), ("rhs", (1, 4), draw)], gradients=gradients)
    for kind in SCALARS + BINARY + "rminus rdiv rpower".split():
        name = "_%s_scalar" % kind
        is_truth = kind in BINARY[4:]
        yield one(name, (10,), among(SPECIAL), gradients=[], scalar=2)
        for dtype in ("float64", "float16"):
            draw = typed(among([1, 1.5, 2, 2.75]) if is_truth or "imum" in kind else between(0.5, 3), dtype)
            yield one(name, (3, 5), draw, gradients=[] if is_truth else None, scalar=1.5)
    for kind in "plus minus mul maximum minimum rminus".split():
        yield one("_%s_scalar" % kind, (12,), typed(between(-90, 90), "int32"), gradients=[], scalar=3)


def all_cases():
    import mxnet_layers
    import mxnet_moves

    for group in (unary, binary, reductions, products, updates, mxnet_layers.layers, mxnet_moves.moves, specials):
        yield from group()
