/* Values into runs and out of them. */
#include "store/runs.h"

#include <string.h>

#include "store/passes.h"

uint64_t store_runs_floats(struct store_runs runs)
{
    uint64_t sum = 0;
    for (int i = 0; i < STORE_RUNS; i++)
        sum += runs.count[i];
    return sum;
}

void store_runs_read(struct store_runs runs, float *out)
{
    for (int i = 0; i < STORE_RUNS; i++)
        if (runs.count[i] > 0) {
            memcpy(out, runs.at[i], (size_t)runs.count[i] * sizeof *out);
            out += runs.count[i];
        }
}

void store_runs_write(struct store_runs runs, const float *in)
{
    for (int i = 0; i < STORE_RUNS; i++)
        if (runs.count[i] > 0) {
            memcpy(runs.at[i], in, (size_t)runs.count[i] * sizeof *in);
            in += runs.count[i];
        }
}

void store_runs_add(struct store_runs runs, const float *in)
{
    for (int i = 0; i < STORE_RUNS; i++)
        if (runs.count[i] > 0) {
            pass_add(runs.at[i], in, (size_t)runs.count[i]);
            in += runs.count[i];
        }
}

bool store_runs_equal(struct store_runs runs, const float *with)
{
    for (int i = 0; i < STORE_RUNS; i++)
        if (runs.count[i] > 0) {
            if (memcmp(runs.at[i], with, (size_t)runs.count[i] * sizeof *with) != 0)
                return false;
            with += runs.count[i];
        }
    return true;
}

struct store_runs store_runs_cut(float *before, float *behind, uint64_t cut, uint64_t first,
                                 uint64_t count)
{
    if (first >= cut)
        return (struct store_runs){.at = {behind + (first - cut)}, .count = {count}};
    if (first + count <= cut || before + cut == behind)
        return (struct store_runs){.at = {before + first}, .count = {count}};
    return (struct store_runs){.at = {before + first, behind},
                               .count = {cut - first, first + count - cut}};
}
