"""Runs the digits program and scikit-learn in turns; see digits-versus-sklearn.sh."""

import os
import re
import statistics
import subprocess
import sys
import time

FIT, RIGHT = 1500, 286
GAMMA, RIDGE = 0.3, 0.01
# After a run OpenBLAS's threads look for more work for some milliseconds, which must not fall into the next run.
PAUSE = 0.2


def rival():
    """A process that makes a run for each line it reads, and answers with milliseconds and images read right."""
    import numpy as np
    from scipy.linalg import cho_factor, cho_solve
    from sklearn.datasets import load_digits
    from sklearn.metrics.pairwise import rbf_kernel
    from threadpoolctl import threadpool_info

    images, labels = load_digits(return_X_y=True)
    images = images / 16.0
    targets = np.where(labels[:FIT, None] == np.arange(10), 1.0, -1.0)
    pools = [pool for pool in threadpool_info() if pool["internal_api"] == "openblas"]
    seen = {f"{pool['version']} ({pool['architecture']}, threads: {pool['num_threads']})" for pool in pools}
    print("OpenBLAS", " and ".join(sorted(seen)), flush=True)

    def run():
        start = time.perf_counter()
        kernel = rbf_kernel(images[:FIT], gamma=GAMMA)
        kernel[np.diag_indices(FIT)] += RIDGE
        # The transpose of the symmetric matrix is in the order of LAPACK, so that nothing is copied.
        factor = cho_factor(kernel.T, lower=True, overwrite_a=True, check_finite=False)
        weights = cho_solve(factor, targets, check_finite=False)
        guesses = (rbf_kernel(images[FIT:], images[:FIT], gamma=GAMMA) @ weights).argmax(axis=1)
        return 1e3 * (time.perf_counter() - start), int((guesses == labels[FIT:]).sum())

    run()
    for _ in sys.stdin:
        print(*run(), flush=True)


class Sklearn:
    name = "scikit-learn"

    def __init__(self, cores):
        threads = {name: str(len(cores)) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS")}
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--rival"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            env=os.environ | threads, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        self.about = self.process.stdout.readline().strip()

    def run(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        milliseconds, right = self.process.stdout.readline().split()
        return float(milliseconds), int(right)


class Digits:
    name = "digits"

    def __init__(self, program, cores):
        self.command, self.cores = [program, "--workers", str(len(cores)), "--repeat", "1"], cores
        self.about = ""

    def run(self):
        text = subprocess.run(self.command, check=True, text=True, stdout=subprocess.PIPE,
                              preexec_fn=lambda: os.sched_setaffinity(0, self.cores)).stdout
        milliseconds = re.search(r"with the engine +([0-9.]+) ms", text).group(1)
        return float(milliseconds), int(re.search(r"right +(\d+) of 297", text).group(1))


def main(program, rounds):
    available = sorted(os.sched_getaffinity(0))
    sets = [available[:1], available[:2]] if len(available) > 1 else [available]
    entrants = [kind for cores in sets for kind in (Sklearn(cores), Digits(program, cores))]
    times = {entrant: [] for entrant in entrants}
    wrong = False
    before = os.getloadavg()[0]
    for number in range(rounds):
        for place in range(len(entrants)):
            entrant = entrants[(number + place) % len(entrants)]
            time.sleep(PAUSE)
            milliseconds, right = entrant.run()
            times[entrant].append(milliseconds)
            if right != RIGHT:
                wrong = True
                print(f"{entrant.name}: {right} images right where {RIGHT} belong", file=sys.stderr)

    print(f"{rounds} rounds in turns; load before {before:.1f}, after {os.getloadavg()[0]:.1f}\n")
    for (at, entrant) in enumerate(entrants):
        cores, all_times = len(sets[at // 2]), times[entrant]
        spread = f"[{min(all_times):.1f} to {max(all_times):.1f}]"
        print(f"  {entrant.name:<13}{cores} core{'s' if cores > 1 else ' '}  {statistics.median(all_times):6.1f} ms "
              f"{spread:<18} {entrant.about}".rstrip())
    sklearn = [times[entrant] for entrant in entrants if entrant.name == "scikit-learn"]
    ours = [times[entrant] for entrant in entrants if entrant.name == "digits"]
    ratios = [min(a) / min(b) for a, b in zip(zip(*ours), zip(*sklearn))]
    print(f"\n  the better of ours is {statistics.median(ratios):.2f} [{min(ratios):.2f} to {max(ratios):.2f}] "
          "of the better of scikit-learn's in the same round")
    return 1 if wrong else 0


if __name__ == "__main__":
    if sys.argv[1:] == ["--rival"]:
        rival()
    else:
        sys.exit(main(sys.argv[1], int(sys.argv[2])))
