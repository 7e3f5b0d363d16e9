// The kernels of this package. kernels.ptx is made of this file by make.py, which says how.

typedef unsigned long long u64;

// Each of `count` numbers of `out` becomes a mixture of itself, of up to three others, and of the
// operation's number. Null stands for none. `spin` steps make it last. What was read early is
// written late, so that a use that is not ordered shows.
extern "C" __global__ void mix(u64 *out, const u64 *a, const u64 *b, const u64 *c, u64 id, u64 spin, u64 count) {
    u64 at = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (at >= count) return;
    u64 value = out[at] * 6364136223846793005ull + id;
    if (a) value += a[at];
    if (b) value += 3 * b[at];
    if (c) value += 5 * c[at];
    for (u64 step = 0; step < spin; step++) value = value * 2862933555777941757ull + 3037000493ull;
    out[at] = value;
}

// Fills a rectangle of a symmetric matrix of n by n that is positive definite. Its first element is
// in row `row` and column `column` of that matrix.
extern "C" __global__ void fill(double *at, u64 rows, u64 columns, u64 right, u64 row, u64 column, u64 n) {
    u64 place = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (place >= rows * columns) return;
    u64 r = place % rows, c = place / rows;
    u64 i = row + r, j = column + c;
    u64 low = i < j ? i : j, high = i < j ? j : i;
    u64 word = (high * 4294967311ull + low) * 6364136223846793005ull + 1442695040888963407ull;
    word = (word ^ (word >> 29)) * 2862933555777941757ull;
    double value = (double)(word >> 32) / 4294967296.0 - 0.5;
    at[r + c * right] = i == j ? value + (double)n : value;
}

// The largest difference of two rectangles, and the largest number of the second, as bits; with
// `lower`, of the places on and below the diagonal only. What is no number counts as infinite.
extern "C" __global__ void compare(const double *a, u64 right_a, const double *b, u64 right_b, u64 rows, u64 columns,
                                   u64 lower, u64 *worst) {
    u64 place = blockIdx.x * (u64)blockDim.x + threadIdx.x;
    if (place >= rows * columns) return;
    u64 r = place % rows, c = place / rows;
    if (lower && r < c) return;
    double one = a[r + c * right_a], other = b[r + c * right_b];
    u64 difference = (u64)__double_as_longlong(fabs(one - other)), size = (u64)__double_as_longlong(fabs(other));
    u64 infinite = 0x7ff0000000000000ull;
    if (difference > infinite) difference = infinite;
    if (size > infinite) size = infinite;
    if (difference > *(volatile u64 *)worst) atomicMax(worst, difference);
    if (size > *(volatile u64 *)(worst + 1)) atomicMax(worst + 1, size);
}
