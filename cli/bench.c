/* trident bench: measures a part of trident against a baseline. */
#include "bench/harness.h"

#include <string.h>
#include <unistd.h>

#include "base/json_out.h"
#include "base/names.h"
#include "base/units.h"
#include "cli/cli.h"
#include "cli/table.h"

struct bench_settings {
    bool json;
    uint64_t repeats;
    double seconds;
    const char *chunks, *only;
};

static const struct bench *find(const char *name)
{
    const struct bench *bench;
    for (size_t i = 0; (bench = bench_at(i)) != NULL; i++)
        if (names_equal(bench->name, name))
            return bench;
    return NULL;
}

static const char *bench_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return bench_at(i) != NULL ? bench_at(i)->name : NULL;
}

static tri_status unknown(const char *name, tri_error *err)
{
    char next[NAMES_TEXT];
    fail(err, TRI_EINPUT, "there is no benchmark '%.60s'", name);
    names_advise(name, bench_candidate, NULL, next);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

static void list_json(struct buf *out)
{
    struct json_out json;
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_array(&json, "benches");
    for (size_t i = 0; bench_at(i) != NULL; i++) {
        json_out_object(&json, NULL);
        json_out_string(&json, "name", bench_at(i)->name);
        json_out_string(&json, "unit", bench_at(i)->unit);
        json_out_string(&json, "summary", bench_at(i)->summary);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_close(&json);
}

static void list_table(const struct cli *cli, struct buf *out)
{
    struct table table;
    table_init(&table, cli->mem, "lll");
    table_cell(&table, "name");
    table_cell(&table, "unit");
    table_cell(&table, "what it asks");
    for (size_t i = 0; bench_at(i) != NULL; i++) {
        table_cell(&table, "%s", bench_at(i)->name);
        table_cell(&table, "%s", bench_at(i)->unit);
        table_cell(&table, "%s", bench_at(i)->summary);
    }
    table_print(&table, 24, out);
    table_fini(&table);
}

/* "256KiB,2MiB" */
static tri_status read_chunks(const char *text, struct bench_wish *wish, tri_error *err)
{
    while (text != NULL && text[0] != '\0') {
        char one[32];
        size_t len = strcspn(text, ",");
        bool fits = len < sizeof one && wish->chunk_count < BENCH_CHUNKS_MAX;
        if (fits) {
            memcpy(one, text, len);
            one[len] = '\0';
        }
        if (!fits || !units_size(one, &wish->chunks[wish->chunk_count++])) {
            fail(err, TRI_EINPUT, "option '--chunk' cannot take '%.40s'", text);
            fail_next(err, "give up to %d sizes, such as 256KiB,2MiB", BENCH_CHUNKS_MAX);
            return TRI_EINPUT;
        }
        text += len + (text[len] == ',');
    }
    return TRI_OK;
}

extern const struct command command_server;

static tri_status serve(const struct mem *mem, tri_error *err)
{
    struct cli cli = {.mem = mem};
    struct arguments none = {.count = 0};
    return command_server.run(&cli, NULL, &none, NULL, err);
}

static tri_status bench_command(struct cli *cli, const void *settings,
                                const struct arguments *arguments, struct buf *out, tri_error *err)
{
    const struct bench_settings *given = settings;
    if (arguments->count == 0) {
        if (given->json)
            list_json(out);
        else
            list_table(cli, out);
        return TRI_OK;
    }
    const struct bench *bench = find(arguments->at[0]);
    if (bench == NULL)
        return unknown(arguments->at[0], err);
    int terminal = fileno(cli->err);
    struct bench_options options = {
        .json = given->json,
        .repeats = (size_t)given->repeats,
        .only = given->only,
        .progress = terminal >= 0 && isatty(terminal) ? cli->err : NULL,
        .wish = {.seconds = given->seconds, .serve = serve},
    };
    tri_status status = read_chunks(given->chunks, &options.wish, err);
    if (status != TRI_OK)
        return status;
    return bench_run(bench, &options, cli->mem, out, err);
}

static const struct option_row bench_rows[] = {
    {.name = "repeats",
     .value = "N",
     .otherwise = "a number for each",
     .help = "how often each case is measured; the median counts",
     .type = OPTION_COUNT,
     .offset = offsetof(struct bench_settings, repeats),
     .min = 1,
     .max = BENCH_REPEATS_MAX},
    {.name = "seconds",
     .value = "S",
     .otherwise = "a time for each",
     .help = "how long one turn lasts, as 2s; for ps, mlp, wfbp, engine, local, learners, "
             "hogwild and checkpoint",
     .type = OPTION_TIME,
     .offset = offsetof(struct bench_settings, seconds),
     .max = 600},
    {.name = "chunk",
     .value = "SIZE,...",
     .otherwise = "some for each",
     .help = "the chunks to try; for ps and wfbp",
     .type = OPTION_TEXT,
     .offset = offsetof(struct bench_settings, chunks)},
    {.name = "only",
     .value = "TEXT",
     .otherwise = "all",
     .help = "the cases with this in their names",
     .type = OPTION_TEXT,
     .offset = offsetof(struct bench_settings, only)},
    {.name = "json",
     .help = "one JSON document instead of a table",
     .type = OPTION_FLAG,
     .offset = offsetof(struct bench_settings, json)},
    {.name = NULL},
};

extern const struct command command_bench;
const struct command command_bench = {
    .name = "bench",
    .summary = "measure a part of trident against a baseline",
    .arguments = "[NAME]",
    .max_arguments = 1,
    .options = bench_rows,
    .settings_bytes = sizeof(struct bench_settings),
    .run = bench_command,
    .about =
        "Without a name, lists the benchmarks. With one, measures each of its cases beside its "
        "baseline, by turns, after checking that both come to the same result, and prints the "
        "medians. A ratio above 1 means faster than the baseline.\n\n"
        "Numbers need a quiet machine: the spread beside each says how quiet it was, and a line "
        "below says so where the host of a virtual machine took much of its time. "
        "TRIDENT_QUICK=1 in the environment measures fewer cases and repeats. The baseline of "
        "product is OpenBLAS, from Debian's package libopenblas0-pthread; engine, hogwild and mlp "
        "are held against PyTorch where python3-torch is installed, learners against Open MPI "
        "where openmpi-bin is, and libopenmpi-dev was when trident was built; wfbp runs on nodes "
        "that tools/netns of the source tree makes.\n\n"
        "ps, mlp, wfbp and checkpoint start processes of their own, which use the library as any "
        "program does. The processor time beside ps is that of all of them. checkpoint saves in "
        "TMPDIR, or in /var/tmp.",
    .examples = "trident bench\ntrident bench crc32c\ntrident bench product --repeats 15 --json\n"
                "trident bench ps --chunk 256KiB,2MiB --seconds 2s\n"
                "trident bench engine --only 4096",
};
