"""ONNX Runtime, for inference: input and output are bound once, and each call copies in and out."""

import serve

import numpy
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper


def model(problem):
    nodes, tensors, at = [], [], "data"

    def add(kind, inputs, **attributes):
        name = "%s.%d" % (kind, len(nodes))
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    is_flat = len(problem.input) == 1
    for number, (layer, weights) in enumerate(problem.with_weights()):
        kind, inputs = layer["layer"], [at]
        for name, weight in zip("wb", weights or ()):
            inputs.append("%s.%d" % (name, number))
            tensors.append(numpy_helper.from_array(weight, inputs[-1]))
        if kind == "Activation":
            at = add({"relu": "Relu", "tanh": "Tanh"}[layer["act_type"]], inputs)
        elif kind == "Pooling":
            assert layer["pool_type"] == "max"
            at = add("MaxPool", inputs, kernel_shape=layer["kernel"], strides=layer["stride"])
        elif kind == "Convolution":
            at = add("Conv", inputs, kernel_shape=layer["kernel"], pads=layer["pad"] * 2)
        else:
            if not is_flat:
                inputs[0], is_flat = add("Flatten", [at]), True
            at = add("Gemm", inputs, transB=1)
    nodes.append(helper.make_node("Softmax", [at], ["out"], axis=1))
    data = helper.make_tensor_value_info("data", TensorProto.FLOAT, [problem.batch, *problem.input])
    out = helper.make_tensor_value_info("out", TensorProto.FLOAT, [problem.batch, 10])
    graph = helper.make_graph(nodes, problem.network["name"], [data], [out], tensors)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.checker.check_model(made)
    return made.SerializeToString()


def make(problem):
    if problem.task != "inference":
        raise serve.Skip("the wheel does not train")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if serve.ONE_THREAD:
        options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(model(problem), options, providers=["CPUExecutionProvider"])
    data = numpy.zeros([problem.batch, *problem.input], "f4")
    out = numpy.zeros([problem.batch, 10], "f4")
    binding = session.io_binding()
    binding.bind_input("data", "cpu", 0, numpy.float32, data.shape, data.ctypes.data)
    binding.bind_output("out", "cpu", 0, numpy.float32, out.shape, out.ctypes.data)
    # What `run_with_iobinding` of the session calls, without its checks.
    run, inner = session._sess.run_with_iobinding, binding._iobinding

    def step(image, _):
        data[:] = image
        run(inner, None)
        return out.copy()

    return step


serve.serve(make, onnxruntime.__version__)
