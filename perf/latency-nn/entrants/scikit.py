"""scikit-learn's perceptron, for epochs."""

import os
import warnings

# They are for older builds of OpenBLAS, and slow this one.
for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(name, None)

import serve  # noqa: E402
import sklearn  # noqa: E402
from sklearn.neural_network import MLPClassifier  # noqa: E402

warnings.filterwarnings("ignore")


class Perceptron:
    def __init__(self, problem):
        rates = problem.training
        kinds = [layer["layer"] for layer in problem.layers]
        if problem.task != "epoch" or kinds != ["FullyConnected", "Activation", "FullyConnected"]:
            raise serve.Skip("it has perceptrons, and counts in epochs")
        first, activation, _ = problem.layers
        # Images come in the order of the epoch: it is not to shuffle them again.
        self.network = MLPClassifier(
            [first["num_hidden"]], activation=activation["act_type"], solver="sgd", alpha=0.0,
            batch_size=problem.batch, learning_rate_init=rates["rate"], momentum=rates["momentum"],
            nesterovs_momentum=False, shuffle=False,
        )
        self.classes = list(range(10))
        images = problem.images.reshape(len(problem.images), -1)
        self.network.partial_fit(images[: problem.batch], problem.labels[: problem.batch], classes=self.classes)
        # From the first weights, and without momentum.
        for layer, own in enumerate(self.network.coefs_):
            own[:] = problem.weights[2 * layer].T
            self.network.intercepts_[layer][:] = problem.weights[2 * layer + 1]
        for velocity in self.network._optimizer.velocities:
            velocity[:] = 0

    def epoch(self, images, labels):
        self.network.partial_fit(images.reshape(len(images), -1), labels)

    def weights(self):
        both = zip(self.network.coefs_, self.network.intercepts_)
        return [array for weight, bias in both for array in (weight.T, bias)]


serve.serve(Perceptron, sklearn.__version__)
