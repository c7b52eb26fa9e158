/* All benchmarks. Adding one is a file and a line here. */
#include "bench/harness.h"

extern const struct bench bench_crc32c, bench_product, bench_ps, bench_step, bench_mlp, bench_wfbp,
    bench_engine, bench_local, bench_hogwild, bench_learners, bench_checkpoint;
static const struct bench *const benches[] = {
    &bench_crc32c, &bench_product, &bench_ps,      &bench_step,     &bench_mlp,        &bench_wfbp,
    &bench_engine, &bench_local,   &bench_hogwild, &bench_learners, &bench_checkpoint,
};

const struct bench *bench_at(size_t i)
{
    return i < sizeof benches / sizeof benches[0] ? benches[i] : NULL;
}
