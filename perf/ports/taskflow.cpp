/* Times Taskflow's own wavefront, beside examples/ports/wavefront.rs. scripts/ports.sh compiles it
 * with matrix.hpp and taskflow.cpp of a clone. Arguments: SIZE BLOCK ROUNDS. */
#include "matrix.hpp"

#include <cstdlib>
#include <vector>

int M, N, B, MB, NB;
double **matrix;

int main(int, char **arguments) {
    M = N = std::atoi(arguments[1]);
    B = std::atoi(arguments[2]);
    MB = NB = M / B;
    std::vector<double> times;
    double sum = 0;
    for (int round = std::atoi(arguments[3]); round > 0; --round) {
        init_matrix();
        times.push_back(measure_time_taskflow(2).count() * 1e-6);
        sum = 0;
        for (int i = 0; i < M; ++i)
            for (int j = 0; j < N; ++j) sum += matrix[i][j];
        destroy_matrix();
    }
    std::sort(times.begin(), times.end());
    std::printf("sum %.17e\nmedian %.9f s\n", sum, times[times.size() / 2]);
}
