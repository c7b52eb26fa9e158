/* OpenBLAS as a baseline: loaded when it is asked for, so that nothing links it. */
#ifndef TRIDENT_BENCH_OPENBLAS_H
#define TRIDENT_BENCH_OPENBLAS_H

#include <stddef.h>

#include "base/error.h"

/* cblas_sgemm: order, transposes, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc. */
typedef void openblas_sgemm(int, int, int, int, int, int, float, const float *, int, const float *,
                            int, float, float *, int);
enum { OPENBLAS_ROW_MAJOR = 101, OPENBLAS_AS_IS = 111, OPENBLAS_TRANSPOSED = 112 };

struct openblas {
    void *library;
    openblas_sgemm *sgemm;
    char text[120]; /* "OpenBLAS 0.3.21, core type Zen, 1 thread" */
};

/* Loads the library with the kernels that suit this processor and one thread.
 * TRI_EIO names the package to install when it is not there. */
tri_status openblas_open(struct openblas *blas, tri_error *err);
void openblas_close(struct openblas *blas);

#endif
