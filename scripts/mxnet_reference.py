"""Calls MXNet's operators on the cases of mxnet_cases.py, and writes what comes out.

    mxnet_reference.py [--check] FOLDER

FOLDER/mxnet-1.9.1.txt has a line a case, FOLDER/mxnet-1.9.1.params.gz the arrays, in MXNet's own
format, and FOLDER/mxnet-1.9.1-lists.txt the names of what operators take and give. With --check the
files are only compared with what comes out now.
"""

import ctypes
import gzip
import os
import sys
import tempfile

import mxnet
import numpy
from mxnet import autograd, nd
from mxnet._ctypes.ndarray import _imperative_invoke
from mxnet.base import _LIB, SymbolHandle, c_str, c_str_array, check_call

from mxnet_cases import all_cases

NAME = "mxnet-1.9.1"
HEAD = "# number operator mode steps carries inputs states gradients outputs about parameters"
LISTS_HEAD = "# operator parameters arguments states outputs"
LIMIT = 5 << 20


def invoke(name, arrays, parameters):
    """Calls an operator by its name in MXNet's registry, with parameters as text."""
    handle = ctypes.c_void_p()
    check_call(_LIB.NNGetOpHandle(c_str(name), ctypes.byref(handle)))
    keys = list(parameters)
    values = [str(parameters[key]).replace("'", "") for key in keys]
    return _imperative_invoke(handle.value, arrays, keys, values, None, False, True)


def run(number, case, kept):
    """Runs a case, keeps its arrays under their names, and returns its line of the index."""
    key = "%04d" % number
    states = [nd.array(values) for values in case.states.values()]
    for name, values in case.states.items():
        kept["%s.before.%s" % (key, name)] = nd.array(values)
    carried = None
    for step in range(case.steps):
        drawn = case.draw(step)
        inputs = {name: nd.array(values, dtype=values.dtype) for name, values in drawn.items()}
        if carried is not None:
            inputs[next(iter(inputs))] = carried
        for name, array in inputs.items():
            # The first input of a later step is the output before.
            if carried is None or name != next(iter(inputs)):
                kept["%s.%d.in.%s" % (key, step, name)] = array.copy()
        for name in case.gradients:
            inputs[name].attach_grad()
        arguments = list(inputs.values()) + states
        if case.gradients:
            with autograd.record(train_mode=case.is_train):
                outputs = invoke(case.name, arguments, case.parameters)[: case.outputs]
            heads = [case.head(step, at, out.shape, out.dtype) for at, out in enumerate(outputs)]
            heads = [nd.array(head, dtype=head.dtype) for head in heads]
            autograd.backward(outputs, heads, train_mode=case.is_train)
            for at, head in enumerate(heads):
                kept["%s.%d.head.%d" % (key, step, at)] = head
        else:
            scope = autograd.train_mode if case.is_train else autograd.predict_mode
            with scope():
                outputs = invoke(case.name, arguments, case.parameters)[: case.outputs]
        nd.waitall()
        for at, out in enumerate(outputs):
            kept["%s.%d.out.%d" % (key, step, at)] = out.copy()
        for name in case.gradients:
            kept["%s.%d.grad.%s" % (key, step, name)] = inputs[name].grad.copy()
        for name, state in zip(case.states, states):
            kept["%s.%d.state.%s" % (key, step, name)] = state.copy()
        if case.carries:
            carried = outputs[0].copy()
    columns = [
        key,
        case.name,
        "train" if case.is_train else "predict",
        str(case.steps),
        "carries" if case.carries else "-",
        ",".join(case.draw(0)),
        ",".join(case.states) or "-",
        ",".join(case.gradients) or "-",
        str(len(outputs)),
        case.about,
        written(case.parameters),
    ]
    return " ".join(column.replace(" ", "").replace("'", "") for column in columns)


def written(parameters):
    text = ";".join("%s=%s" % pair for pair in parameters.items()) or "-"
    return text.replace(" ", "").replace("'", "")


def documented(handle):
    """The names of the arrays that an operator takes, from its documentation."""
    text, texts, count = ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p), ctypes.c_uint()
    name, about, key, of = text(), text(), text(), text()
    names, types, abouts = texts(), texts(), texts()
    places = [name, about, count, names, types, abouts, key, of]
    check_call(_LIB.MXSymbolGetAtomicSymbolInfo(handle, *[ctypes.byref(place) for place in places]))
    each = [(names[at].decode(), types[at].decode()) for at in range(count.value)]
    return [name for name, type_ in each if type_.startswith("NDArray")]


def lists(case):
    """The names of the arguments, auxiliary states and visible outputs, which a symbol tells."""
    handle, made = ctypes.c_void_p(), SymbolHandle()
    check_call(_LIB.NNGetOpHandle(c_str(case.name), ctypes.byref(handle)))
    keys = c_str_array(list(case.parameters))
    values = c_str_array([str(value).replace("'", "") for value in case.parameters.values()])
    count = ctypes.c_uint(len(case.parameters))
    check_call(_LIB.MXSymbolCreateAtomicSymbol(handle, count, keys, values, ctypes.byref(made)))
    symbol = mxnet.symbol.Symbol(made)
    # A symbol makes the variables that it is not given. An update has to be given all.
    names = documented(handle) if case.name.endswith("_update") else []
    symbol._compose(*[mxnet.symbol.var("op_" + name) for name in names], name="op")
    found = (symbol.list_arguments(), symbol.list_auxiliary_states(), symbol.list_outputs())
    return [",".join(name[len("op_") :] for name in names) or "-" for names in found]


def all_lists():
    """A line for each operator and each form of its lists, with the first parameters that have it."""
    lines = {}
    for case in all_cases():
        names = lists(case)
        lines.setdefault((case.name, *names), " ".join([case.name, written(case.parameters), *names]))
    return "\n".join([LISTS_HEAD, *lines.values()]) + "\n"


def make():
    """Runs all cases; returns the text of the index and the arrays by name."""
    assert mxnet.__version__ == "1.9.1", mxnet.__version__
    lines, kept, failed = [HEAD], {}, []
    for number, case in enumerate(all_cases()):
        try:
            lines.append(run(number, case, kept))
        except Exception as error:
            message = str(error).strip().splitlines()[-1]
            failed.append("MXNet refuses %s %s: %s" % (case.name, case.parameters, message))
    if failed:
        raise SystemExit("\n".join(failed))
    return "\n".join(lines) + "\n", kept


def write(folder, index, kept):
    with tempfile.TemporaryDirectory() as temporary:
        path = os.path.join(temporary, "all.params")
        nd.save(path, kept)
        with open(path, "rb") as file:
            plain = file.read()
    # Without a time, so that the same arrays are the same bytes.
    packed = gzip.compress(plain, 9, mtime=0)
    if len(packed) > LIMIT:
        raise SystemExit("%d bytes are more than the repository should hold" % len(packed))
    os.makedirs(folder, exist_ok=True)
    for ending, text in ((".txt", index), ("-lists.txt", all_lists())):
        with open(os.path.join(folder, NAME + ending), "w") as file:
            file.write(text)
    with open(os.path.join(folder, NAME + ".params.gz"), "wb") as file:
        file.write(packed)
    print("%d cases, %d arrays, %d bytes" % (index.count("\n") - 1, len(kept), len(packed)))


def check(folder, index, kept):
    for ending, text in ((".txt", index), ("-lists.txt", all_lists())):
        with open(os.path.join(folder, NAME + ending)) as file:
            if file.read() != text:
                raise SystemExit("what is made is not what %s%s has" % (NAME, ending))
    with tempfile.TemporaryDirectory() as temporary:
        path = os.path.join(temporary, "all.params")
        with gzip.open(os.path.join(folder, NAME + ".params.gz")) as packed, open(path, "wb") as file:
            file.write(packed.read())
        old = nd.load(path)
    if sorted(old) != sorted(kept):
        raise SystemExit("the arrays have other names")
    differ = []
    for name, array in kept.items():
        one, other = old[name].asnumpy(), array.asnumpy()
        same = one.shape == other.shape and one.dtype == other.dtype
        if not same or not numpy.allclose(one, other, rtol=1e-5, atol=1e-6, equal_nan=True):
            differ.append(name)
    if differ:
        raise SystemExit("other arrays than in the file: " + " ".join(differ))
    print("%d cases, %d arrays: as in the files" % (index.count("\n") - 1, len(kept)))


if __name__ == "__main__":
    arguments = sys.argv[1:]
    only_check = arguments[:1] == ["--check"]
    made = make()
    (check if only_check else write)(arguments[-1], *made)
