"""The calls of layers that mxnet_cases.py gives to mxnet_reference.py."""

from mxnet_cases import UNIT, Case, among, apart, below, between, one


def activations():
    wide = between(-3, 3)
    for slope in (0.25, 0.01):
        yield one("LeakyReLU", (3, 5), wide, act_type="leaky", slope=slope)
        yield one("LeakyReLU", (3, 5), wide, act_type="elu", slope=slope)
    yield one("LeakyReLU", (2, 3, 4), wide, act_type="gelu")
    yield one("LeakyReLU", (2, 3, 4), wide, about="selu-gradient", act_type="selu")
    for shape, gamma in (((2, 3), (3,)), ((2, 3, 4, 5), (3,)), ((2, 3, 4), (1,))):
        yield Case("LeakyReLU", [("data", shape, wide), ("gamma", gamma, between(0.1, 0.5))], act_type="prelu")
    # Not in training, where slopes are random. MXNet's gradient then uses memory that nothing wrote.
    yield one("LeakyReLU", (3, 5), wide, gradients=[], train=False, outputs=1, act_type="rrelu")
    yield one("LeakyReLU", (3, 5), wide, gradients=[], train=False, outputs=1, act_type="rrelu", lower_bound=0.2, upper_bound=0.3)
    yield one("LeakyReLU", (6,), among([-1, -0.0, 0, 1, -1e-3, 1e-3]), act_type="leaky")
    for name in ("softmax", "log_softmax"):
        yield one(name, (4, 6), wide)
        yield one(name, (2, 3, 4), wide, axis=1)
        yield one(name, (2, 3, 4), wide, axis=0, temperature=0.6)
        yield one(name, (2, 300), between(-20, 20), axis=-1, temperature=2.5)
        yield one(name, (3, 4), between(60, 120))
    yield one("Dropout", (3, 5), train=False, p=0.4)
    yield one("Dropout", (3, 5), p=0)


def normalisation():
    def batch(shape, axis=1, train=True, steps=3, gradients=None, **parameters):
        count = (shape[axis],)
        inputs = [("data", shape, between(-1, 3)), ("gamma", count, between(0.5, 1.5)), ("beta", count)]
        states = [("moving_mean", count, UNIT), ("moving_var", count, between(0.5, 2))]
        if axis != 1:
            parameters["axis"] = axis
        return Case("BatchNorm", inputs, gradients=gradients, states=states, steps=steps, train=train, **parameters)

    yield batch((4, 3, 5, 6), fix_gamma=False)
    yield batch((4, 3, 5, 6))
    yield batch((8, 3), fix_gamma=False, momentum=0.7, eps=0.01)
    yield batch((4, 3, 5), fix_gamma=False)
    yield batch((4, 3, 5, 2), axis=3, fix_gamma=False, eps=2e-5)
    yield batch((4, 3, 5, 6), train=False, fix_gamma=False, steps=1)
    yield batch((4, 3, 5, 6), fix_gamma=False, use_global_stats=True)
    yield batch((4, 3, 5, 6), fix_gamma=False, output_mean_var=True)
    yield batch((4, 3, 5, 6), fix_gamma=False, steps=1, gradients=[], about="no-backward")
    yield batch((4, 3, 5, 6), fix_gamma=False, output_mean_var=True, steps=1, gradients=[], train=False)

    def layer(shape, axis, **parameters):
        count = (shape[axis],)
        inputs = [("data", shape, between(-1, 3)), ("gamma", count, between(0.5, 1.5)), ("beta", count)]
        return Case("LayerNorm", inputs, axis=axis, **parameters)

    yield layer((4, 7), -1)
    yield layer((2, 3, 40), -1, eps=0.01)
    yield layer((2, 5, 3), 1)
    yield layer((6, 3), 0)
    yield layer((4, 7), -1, output_mean_var=True, gradients=[])


def losses():
    def output(data, label, draw, gradients=("data",), **parameters):
        inputs = [("data", data, between(-2, 2)), ("label", label, draw)]
        return Case("SoftmaxOutput", inputs, gradients=list(gradients), **parameters)

    yield output((5, 4), (5,), below(4))
    yield output((5, 4), (5,), below(4), grad_scale=0.3)
    for normalization in ("null", "batch", "valid"):
        labels = among([0, 1, 2, 3, -1, 2, -1])
        yield output((7, 4), (7,), labels, use_ignore=True, normalization=normalization)
        yield output((7, 4), (7,), below(4), grad_scale=2, normalization=normalization)
    yield output((7, 4), (7,), among([0, 1, 2, 3]), use_ignore=True, ignore_label=2, normalization="valid")
    yield output((5, 4), (5,), below(4), about="out-grad", out_grad=True)
    yield output((5, 4), (5,), among([0, 5, 3, -2, 1]), about="no-class")
    yield output((2, 3, 4), (2, 3), below(4), preserve_shape=True)
    yield output((2, 3, 4), (2, 3), below(4), preserve_shape=True, normalization="batch")
    yield output((2, 3, 4), (2, 3), below(4), gradients=[], about="more-axes")
    for normalization in ("null", "batch", "valid"):
        yield output((2, 3, 4), (2, 4), below(3), multi_output=True, normalization=normalization)
        labels = among([0, 1, 2, -1])
        form = dict(multi_output=True, use_ignore=True, grad_scale=0.7)
        yield output((2, 3, 4, 2), (2, 4, 2), labels, normalization=normalization, **form)
    yield output((5, 4), (5,), below(4), multi_output=True)

    for name in ("LinearRegressionOutput", "LogisticRegressionOutput", "MAERegressionOutput"):
        for data, label in (((4, 3), (4, 3)), ((5, 1), (5,)), ((2, 3, 4), (2, 3, 4))):
            draw = UNIT if name != "LogisticRegressionOutput" else below(2)
            inputs = [("data", data, between(-2, 2)), ("label", label, draw)]
            yield Case(name, inputs, gradients=["data"])
            yield Case(name, inputs, gradients=["data"], grad_scale=0.5)
        same = among([0, 1])
        about = "equal" if name.startswith("MAE") else "-"
        yield Case(name, [("data", (3, 4), same), ("label", (3, 4), same)], gradients=["data"], about=about)
    yield one("make_loss", (3, 4))
    yield one("MakeLoss", (3, 4), grad_scale=0.5)
    yield one("MakeLoss", (3, 4), grad_scale=0.5, normalization="batch")
    yield one("MakeLoss", (3, 4), grad_scale=0.5, normalization="valid", valid_thresh=0.2)


def convolutions():
    def convolution(name, data, filters, kernel, bias=True, groups=1, **parameters):
        channels = data[1]
        if name == "Convolution":
            weight = (filters, channels // groups) + kernel
        else:
            weight = (channels, filters // groups) + kernel
        inputs = [("data", data), ("weight", weight)] + ([("bias", (filters,))] if bias else [])
        parameters.update(kernel=kernel, num_filter=filters, no_bias=not bias)
        if groups > 1:
            parameters["num_group"] = groups
        return Case(name, inputs, **parameters)

    for name in ("Convolution", "Deconvolution"):
        yield convolution(name, (2, 3, 7, 8), 4, (3, 3))
        yield convolution(name, (2, 3, 7, 8), 4, (3, 2), pad=(1, 0), stride=(2, 1))
        yield convolution(name, (2, 3, 9, 8), 4, (3, 3), bias=False, dilate=(2, 1), pad=(2, 1))
        about = "dilated" if name == "Deconvolution" else "-"
        yield convolution(name, (2, 3, 9, 8), 4, (3, 3), bias=False, about=about, dilate=(2, 2), stride=(2, 1))
        yield convolution(name, (2, 4, 6, 6), 6, (3, 3), groups=2, stride=(2, 2), pad=(1, 1))
        yield convolution(name, (1, 4, 6, 5), 4, (3, 3), groups=4, pad=(1, 1))
        yield convolution(name, (2, 3, 5, 5), 8, (1, 1))
        yield convolution(name, (2, 3, 11), 4, (3,))
        yield convolution(name, (2, 4, 12), 6, (4,), groups=2, stride=(3,), pad=(2,), dilate=(1,))
    yield convolution("Convolution", (2, 16, 14, 14), 32, (5, 5), pad=(2, 2))
    yield convolution("Deconvolution", (2, 3, 4, 5), 4, (3, 3), stride=(2, 3), adj=(1, 2), pad=(1, 0))
    yield convolution("Deconvolution", (2, 3, 4, 4), 2, (4, 4), stride=(2, 2), target_shape=(8, 8), bias=False)
    yield convolution("Deconvolution", (2, 3, 4, 4), 2, (3, 3), stride=(2, 2), target_shape=(8, 8))
    yield convolution("Deconvolution", (2, 4, 4, 5), 4, (3, 2), groups=2, stride=(2, 2), dilate=(2, 1), about="dilated")


def pooling():
    for pool_type in ("max", "avg", "sum"):

        def pool(shape, **parameters):
            return one("Pooling", shape, apart(-1, 1), pool_type=pool_type, **parameters)

        yield pool((2, 3, 6, 8), kernel=(2, 2), stride=(2, 2))
        yield pool((2, 3, 7, 8), kernel=(3, 2), stride=(2, 1), pad=(1, 0))
        yield pool((2, 3, 5, 5), kernel=(3, 3))
        yield pool((2, 2, 3, 4), global_pool=True, kernel=(1, 1))
        yield pool((2, 2, 3, 4), global_pool=True)
        yield pool((2, 3, 9), kernel=(3,), stride=(2,), pad=(1,))
        yield pool((2, 3, 9), global_pool=True, kernel=(2,))
        for pad in ((0, 0), (1, 1)):
            yield pool((2, 2, 6, 7), kernel=(3, 3), stride=(2, 2), pad=pad, pooling_convention="full")
            about = "beyond" if pad == (1, 1) else "-"
            yield pool((2, 2, 8, 8), about=about, kernel=(3, 3), stride=(3, 3), pad=pad, pooling_convention="full")
        yield pool((2, 2, 8), kernel=(3,), stride=(2,), pooling_convention="full")
    for convention in ("valid", "full"):
        for shape, kernel, stride, pad in (
            ((2, 2, 6, 7), (3, 3), (2, 2), (1, 1)),
            ((2, 2, 8, 5), (3, 2), (3, 2), (2, 1)),
            ((2, 2, 8), (3,), (2,), (1,)),
        ):
            parameters = dict(kernel=kernel, stride=stride, pad=pad, pooling_convention=convention)
            about = "beyond" if (shape[-1], convention) == (5, "full") else "-"
            yield one(
                "Pooling", shape, apart(-1, 1), about=about, pool_type="avg", count_include_pad=False, **parameters
            )
    for pool_type, more in (("max", {}), ("avg", {}), ("avg", {"count_include_pad": False}), ("sum", {})):
        solid = dict(more, pool_type=pool_type)
        yield one("Pooling", (2, 2, 4, 3, 5), apart(-1, 1), kernel=(2, 2, 3), **solid)
        solid.update(kernel=(3, 2, 2), stride=(2, 1, 2), pad=(1, 1, 0))
        yield one("Pooling", (2, 2, 5, 4, 5), apart(-1, 1), **solid)
        yield one("Pooling", (2, 2, 5, 4, 4), apart(-1, 1), pooling_convention="full", **solid)
    yield one("Pooling", (2, 3, 2, 3, 4), apart(-1, 1), pool_type="avg", global_pool=True)
    for order in (1, 2, 3):
        # Sums of cubes near 0 have roots of which few digits are right.
        draw = between(0.2, 1) if order == 3 else apart(-1, 1)
        norm = dict(pool_type="lp", p_value=order)
        yield one("Pooling", (2, 3, 9), draw, kernel=(3,), stride=(2,), pad=(1,), **norm)
        yield one("Pooling", (2, 2, 6, 7), draw, kernel=(3, 2), stride=(2, 2), pooling_convention="full", **norm)
        yield one("Pooling", (2, 2, 4, 3, 5), draw, kernel=(2, 2, 3), pad=(0, 1, 1), **norm)
        yield one("Pooling", (2, 3, 3, 4), draw, global_pool=True, **norm)
    # The cube root of a negative sum.
    yield one("Pooling", (2, 2, 6), between(-1, -0.2), kernel=(2,), pool_type="lp", p_value=3)
    # The first of equal elements has the gradient.
    yield one("Pooling", (2, 2, 6, 6), below(3), kernel=(3, 3), stride=(2, 2), pool_type="max")


def layers():
    for group in (activations, normalisation, losses, convolutions, pooling):
        yield from group()
