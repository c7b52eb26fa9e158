/* How much faster is the hardware CRC-32C than the table? */
#include "base/crc32c.h"

#include "base/mem.h"
#include "base/rng.h"
#include "bench/harness.h"

/* Every case reads the same 2 MiB, which stay in the second or third cache, and
 * differs only in how many bytes one checksum covers. */
#define TOTAL ((size_t)2 << 20)

struct work {
    const uint8_t *bytes;
    size_t block; /* divides TOTAL */
    uint64_t sum; /* of the checksums: depends on all of the work */
};

enum { CASES = 3 };

struct state {
    uint8_t *bytes;
    struct work works[CASES];
    struct bench_case cases[CASES];
};

static void each_block(struct work *work, uint32_t (*crc)(uint32_t, const void *, size_t))
{
    work->sum = 0;
    for (size_t at = 0; at < TOTAL; at += work->block)
        work->sum += crc(0, work->bytes + at, work->block);
}

static void run(void *ctx)
{
    each_block(ctx, crc32c);
}

static void baseline(void *ctx)
{
    each_block(ctx, crc32c_table);
}

static bool same(void *ctx)
{
    struct work *work = ctx;
    run(work);
    uint64_t sum = work->sum;
    baseline(work);
    return work->sum == sum;
}

static void crc32c_close(const struct mem *mem, struct bench_plan *plan)
{
    struct state *state = plan->state;
    mem_free(mem, state->bytes);
    mem_free(mem, state);
}

static tri_status crc32c_open(const struct mem *mem, const struct bench_wish *wish,
                              struct bench_plan *plan, tri_error *err)
{
    (void)wish; /* takes a second as it is */
    static const struct {
        const char *name;
        size_t block;
    } rows[CASES] = {{"64 B", 64}, {"4 KiB", 4096}, {"2 MiB", TOTAL}};
    struct state *state = mem_array(mem, 1, sizeof *state);
    if (state == NULL)
        return fail_nomem(err, "the benchmark");
    *plan = (struct bench_plan){
        .cases = state->cases,
        .count = CASES,
        .default_case = 2,
        .value_name = crc32c_how(),
        .baseline_name = "table",
        .state = state,
    };
    state->bytes = mem_array(mem, TOTAL, 1);
    if (state->bytes == NULL) {
        crc32c_close(mem, plan);
        return fail_nomem(err, "2 MiB to sum up");
    }
    struct rng rng;
    rng_init(&rng, 1);
    for (size_t i = 0; i < TOTAL; i++)
        state->bytes[i] = (uint8_t)rng_u64(&rng);
    for (size_t i = 0; i < CASES; i++) {
        state->works[i] = (struct work){.bytes = state->bytes, .block = rows[i].block};
        state->cases[i] = (struct bench_case){
            .name = rows[i].name,
            .work = (double)TOTAL * 1e-9,
            .run = run,
            .baseline = baseline,
            .same = same,
            .ctx = &state->works[i],
        };
    }
    return TRI_OK;
}

extern const struct bench bench_crc32c;
const struct bench bench_crc32c = {
    .name = "crc32c",
    .summary = "how much faster is the hardware CRC-32C than the table?",
    .unit = "GB/s",
    .repeats = 15,
    .open = crc32c_open,
    .close = crc32c_close,
};
