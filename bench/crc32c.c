/* How much faster is the hardware CRC-32C than the table? */
#include "base/crc32c.h"

#include <stdio.h>

#include "base/mem.h"
#include "base/rng.h"
#include "bench/harness.h"

/* Every case reads the same 2 MiB, which stay in the second or third cache, and
 * differs only in how many bytes one checksum covers. */
#define TOTAL ((size_t)2 << 20)

struct work {
    const uint8_t *bytes;
    size_t block; /* divides TOTAL */
};

static uint64_t each_block(const struct work *work, uint32_t (*crc)(uint32_t, const void *, size_t))
{
    uint64_t sum = 0;
    for (size_t at = 0; at < TOTAL; at += work->block)
        sum += crc(0, work->bytes + at, work->block);
    return sum;
}

static uint64_t run(void *ctx)
{
    return each_block(ctx, crc32c);
}

static uint64_t baseline(void *ctx)
{
    return each_block(ctx, crc32c_table);
}

int main(int argc, char **argv)
{
    uint8_t *bytes = mem_array(&mem_libc, TOTAL, 1);
    if (bytes == NULL) {
        fprintf(stderr, "bench_crc32c: no memory for %zu bytes\n", TOTAL);
        return 1;
    }
    struct rng rng;
    rng_init(&rng, 1);
    for (size_t i = 0; i < TOTAL; i++)
        bytes[i] = (uint8_t)rng_u64(&rng);
    struct work small = {bytes, 64}, middle = {bytes, 4096}, large = {bytes, TOTAL};
    const double work_gb = (double)TOTAL * 1e-9;
    const struct bench_case cases[] = {
        {"64 B", work_gb, run, baseline, &small},
        {"4 KiB", work_gb, run, baseline, &middle},
        {"2 MiB", work_gb, run, baseline, &large},
    };
    const struct bench bench = {
        .name = "crc32c",
        .question = "how much faster is the hardware CRC-32C than the table?",
        .unit = "GB/s",
        .value_name = crc32c_how(),
        .baseline_name = "table",
        .cases = cases,
        .count = sizeof cases / sizeof cases[0],
        .default_case = 2,
    };
    int code = bench_main(&bench, argc, argv);
    mem_free(&mem_libc, bytes);
    return code;
}
