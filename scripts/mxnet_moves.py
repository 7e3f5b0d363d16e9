"""The calls of operators that move or pick elements, for mxnet_reference.py."""

from mxnet_cases import UNIT, Case, among, apart, below, between, one


def joining():
    def several(name, shapes, **parameters):
        inputs = [("arg%d" % at, shape) for at, shape in enumerate(shapes)]
        return Case(name, inputs, num_args=len(shapes), **parameters)

    for name in ("Concat", "concat"):
        yield several(name, [(2, 1), (2, 3), (2, 2)])
        yield several(name, [(3, 2, 2), (1, 2, 2)], dim=0)
        yield several(name, [(2, 2, 3), (2, 2, 1)], dim=-1)
        yield several(name, [(2, 2)])
    yield several("stack", [(2, 3), (2, 3)])
    yield several("stack", [(2, 3)] * 3, axis=-1)
    yield several("stack", [(2, 3)] * 3, axis=1)
    for name in ("SliceChannel", "split"):
        yield one(name, (2, 6), num_outputs=3)
        yield one(name, (4, 3), num_outputs=4, axis=0, squeeze_axis=True)
        yield one(name, (2, 3, 4), num_outputs=2, axis=-1)
        yield one(name, (2, 3), num_outputs=1)


def shaping():
    yield one("slice", (4, 5), begin=(1, "None"), end=("None", -1))
    yield one("slice", (4, 5), begin=("None", -2), end=("None", "None"), step=(-1, -2))
    yield one("slice", (4, 5), begin=(3, 0), end=(0, 5), step=(-2, 3))
    yield one("slice", (3, 4, 2), begin=(1,), end=(3,))
    yield one("slice_axis", (4, 5), axis=1, begin=-4, end=-1)
    yield one("slice_axis", (4, 5), axis=0, begin=1, end="None")
    yield one("slice_axis", (4, 5), axis=-1, begin=0, end=2)
    yield one("transpose", (2, 3, 4))
    yield one("transpose", (2, 3, 4), axes=(1, 2, 0))
    yield one("transpose", (2, 3, 4, 5), axes=(0, 2, 3, 1))
    for axis in (0, 1, -1):
        yield one("expand_dims", (2, 3), axis=axis)
    yield one("squeeze", (1, 3, 1, 2))
    yield one("squeeze", (1, 3, 1, 2), axis=(0,))
    yield one("squeeze", (1, 3, 1, 2), axis=-2)
    yield one("Flatten", (2, 3, 4))
    for name in ("Reshape", "reshape"):
        yield one(name, (2, 3, 4), shape=(4, 6))
        yield one(name, (2, 3, 4), shape=(0, -1))
        yield one(name, (2, 3, 4), shape=(-1,))
        yield one(name, (2, 3, 4), shape=(-1, 0, 2))
    yield one("tile", (2, 3), reps=(2, 1))
    yield one("tile", (2, 3), reps=(2,))
    yield one("tile", (2, 3), reps=(2, 1, 3))
    yield one("repeat", (2, 3), repeats=2)
    yield one("repeat", (2, 3), repeats=3, axis=0)
    yield one("repeat", (2, 3, 2), repeats=2, axis=-2)
    for name in ("Pad", "pad"):
        for mode in ("constant", "edge", "reflect"):
            value = {"constant_value": 1.5} if mode == "constant" else {}
            yield one(name, (2, 2, 3, 4), mode=mode, pad_width=(0, 0, 0, 0, 1, 2, 3, 1), **value)
    yield one("clip", (4, 9), between(-3, 3), a_min=-1, a_max=2)
    yield one("clip", (5,), among([-1, 2, -2, 3, 0]), a_min=-1, a_max=2)
    x, y = ("x", (3, 4)), ("y", (3, 4))
    yield Case("where", [("condition", (3, 4), below(2)), x, y], gradients=["x", "y"])
    yield Case("where", [("condition", (3,), below(2)), x, y], gradients=["x", "y"])


def picking():
    beyond = among([0, -1, 2, 7, -6, 4, 1])
    for axis in (0, 1, -1):
        for mode in ("clip", "wrap"):
            inputs = [("a", (4, 5), UNIT), ("indices", (2, 3), beyond)]
            yield Case("take", inputs, gradients=["a"], axis=axis, mode=mode)
    yield Case("take", [("a", (4, 5), UNIT), ("indices", (6,), below(4))], gradients=["a"])
    yield Case("take", [("a", (4, 5), UNIT), ("indices", (6,), below(4, "int32"))], gradients=["a"])
    yield Case("take", [("a", (4, 5), UNIT), ("indices", (3,), below(4))], gradients=[], mode="raise")
    weight = ("weight", (6, 4))
    yield Case("Embedding", [("data", (5,), below(6)), weight], gradients=["weight"], input_dim=6, output_dim=4)
    yield Case("Embedding", [("data", (2, 9), below(6)), weight], gradients=["weight"], input_dim=6, output_dim=4)
    yield Case("Embedding", [("data", (7,), among([0, -1, 9, 5])), weight], gradients=[], input_dim=6, output_dim=4)
    for mode in ("clip", "wrap"):
        inputs = [("data", (3, 4), UNIT), ("index", (3,), among([-2, 3, 6]))]
        yield Case("pick", inputs, gradients=["data"], axis=1, mode=mode)
        inputs = [("data", (3, 4), UNIT), ("index", (4,), among([-2, 1, 2, 5]))]
        yield Case("pick", inputs, gradients=["data"], axis=0, mode=mode)
    inputs = [("data", (2, 3, 4), UNIT), ("index", (2, 3, 1), below(4))]
    yield Case("pick", inputs, gradients=["data"], keepdims=True)
    for more in ({}, {"on_value": 2, "off_value": -1}, {"dtype": "int32"}):
        yield Case("one_hot", [("indices", (2, 5), among([0, 3, -1, 4, 2]))], gradients=[], depth=4, **more)


def sorting():
    for ret_typ in ("value", "indices", "mask", "both"):
        has_values = ret_typ in ("value", "both")
        for form in ({"k": 3}, {"k": 2, "axis": 0, "is_ascend": True}, {"k": 0}, {"k": 1, "axis": 1}):
            gradients = None if has_values else []
            yield one("topk", (3, 6), apart(-1, 1), gradients=gradients, ret_typ=ret_typ, **form)
    yield one("topk", (2, 3, 5), apart(-1, 1), gradients=[], k=4, axis="None")
    yield one("topk", (3, 6), apart(-1, 1), gradients=[], k=2, dtype="int32")
    for form in ({}, {"axis": 0}, {"is_ascend": False}, {"axis": "None"}, {"axis": 1, "is_ascend": False}):
        # MXNet cannot read back its own default of the axis for the gradient.
        gradients = None if "axis" in form else []
        yield one("sort", (3, 4, 2), apart(-1, 1), gradients=gradients, **form)
        yield one("argsort", (3, 4, 2), apart(-1, 1), gradients=[], **form)
    yield one("argsort", (3, 6), apart(-1, 1), gradients=[], dtype="int32")


def moves():
    for group in (joining, shaping, picking, sorting):
        yield from group()
