/* trident checkpoint: what a job has saved, and whether it is whole. */
#include "cli/checkpoint.h"

#include <string.h>
#include <time.h>

#include "base/json_out.h"
#include "base/names.h"
#include "base/units.h"
#include "checkpoint/checkpoint.h"
#include "cli/table.h"
#include "os/file.h"

enum { NAME_WIDTH = 60, LINE_WIDTH = 96 };

char *checkpoint_time(int64_t seconds, char out[CHECKPOINT_TIME])
{
    struct tm tm;
    time_t when = (time_t)seconds;
    if (gmtime_r(&when, &tm) == NULL || strftime(out, CHECKPOINT_TIME, "%F %T UTC", &tm) == 0)
        (void)snprintf(out, CHECKPOINT_TIME, "%lld s", (long long)seconds);
    return out;
}

/* ---- what there is ---- */

enum state { UNKNOWN, WHOLE, DAMAGED };

struct row {
    struct checkpoint_entry entry;
    enum state state;
    tri_error why; /* of a damaged one */
};

struct rows {
    const char *folder;
    struct row *at;
    size_t count, damaged;
    const struct row *newest; /* whole one; NULL: none */
};

static tri_status refuse_empty(const char *folder, tri_error *err)
{
    fail(err, TRI_EINPUT, "there is no checkpoint in '%.150s'", folder);
    fail_why(err, "a checkpoint is a file clock-<number>.safetensors");
    fail_next(err, "give the folder that a job was told to save in, as trident train --checkpoint");
    return TRI_EINPUT;
}

static tri_status list(struct cli *cli, const char *folder, struct checkpoint_entry **entries,
                       size_t *count, tri_error *err)
{
    tri_status status = checkpoint_list(folder, cli->mem, entries, count, err);
    if (status == TRI_OK && *count == 0) {
        mem_free(cli->mem, *entries);
        *entries = NULL;
        status = refuse_empty(folder, err);
    }
    return status;
}

tri_status checkpoint_pick(struct cli *cli, const char *folder, struct buf *path, tri_error *err)
{
    struct checkpoint_entry *entries = NULL;
    size_t count = 0;
    tri_status status = list(cli, folder, &entries, &count, err);
    if (status == TRI_OK) {
        size_t len = strlen(folder);
        bool slash = len > 0 && folder[len - 1] == '/';
        buf_format(path, "%s%s%s", folder, slash ? "" : "/", entries[0].name);
        status = buf_ok(path) ? TRI_OK : fail_nomem(err, "a path");
    }
    mem_free(cli->mem, entries);
    return status;
}

static tri_status open_rows(struct cli *cli, const char *folder, struct rows *rows, tri_error *err)
{
    struct checkpoint_entry *entries = NULL;
    tri_status status = list(cli, folder, &entries, &rows->count, err);
    if (status != TRI_OK)
        return status;
    rows->folder = folder;
    rows->at = mem_array(cli->mem, rows->count, sizeof *rows->at);
    for (size_t i = 0; i < rows->count && rows->at != NULL && entries != NULL; i++)
        rows->at[i].entry = entries[i];
    mem_free(cli->mem, entries);
    return rows->at != NULL ? TRI_OK : fail_nomem(err, "a list of checkpoints");
}

static tri_status verify_row(struct cli *cli, struct rows *rows, struct row *row, tri_error *err)
{
    struct buf path;
    buf_init(&path, cli->mem);
    buf_format(&path, "%s/%s", rows->folder, row->entry.name);
    tri_status status = buf_ok(&path) ? checkpoint_verify(buf_string(&path), cli->mem, &row->why)
                                      : fail_nomem(&row->why, "a path");
    buf_fini(&path);
    row->state = status == TRI_OK ? WHOLE : DAMAGED;
    rows->damaged += status == TRI_EINPUT;
    if (status == TRI_OK && rows->newest == NULL)
        rows->newest = row;
    if (status == TRI_OK || status == TRI_EINPUT)
        return TRI_OK;
    *err = row->why;
    return status;
}

static tri_status verify_rows(struct cli *cli, struct rows *rows, tri_error *err)
{
    tri_status status = TRI_OK;
    for (size_t i = 0; i < rows->count && status == TRI_OK; i++)
        status = verify_row(cli, rows, &rows->at[i], err);
    return status;
}

/* ---- as text ---- */

/* Breaks a line at spaces; those after the first are indented. */
static void put_wrapped(const char *text, struct buf *out)
{
    size_t column = 0;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > 0 && column + 1 + word > LINE_WIDTH) {
            buf_text(out, "\n ");
            column = 1;
        }
        if (column > 0)
            buf_char(out, ' ');
        buf_add(out, text, word);
        column += word + (column > 0);
        text += word + strspn(text + word, " ");
    }
    buf_char(out, '\n');
}

static void put_reasons(const struct rows *rows, struct buf *out)
{
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->at[i];
        struct buf line;
        if (row->state != DAMAGED)
            continue;
        buf_init(&line, out->mem);
        buf_format(&line, "%s: %s", row->entry.name, row->why.why);
        out->refused = out->refused || line.refused;
        buf_char(out, '\n');
        put_wrapped(buf_string(&line), out);
        buf_fini(&line);
    }
}

static void put_table(const struct rows *rows, struct buf *out)
{
    static const char *const states[] = {[UNKNOWN] = "", [WHOLE] = "ok", [DAMAGED] = "damaged"};
    static const char *const heads[] = {"checkpoint", "clock", "size", "written", "state"};
    struct table table;
    bool known = rows->at[0].state != UNKNOWN;
    table_init(&table, out->mem, known ? "lrrll" : "lrrl");
    for (size_t i = 0; i < (known ? 5U : 4U); i++)
        table_cell(&table, "%s", heads[i]);
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->at[i];
        char size[UNITS_TEXT], written[CHECKPOINT_TIME];
        table_cell(&table, "%s", row->entry.name);
        table_cell(&table, "%llu", (unsigned long long)row->entry.clock);
        table_cell(&table, "%s", units_show_bytes((double)row->entry.bytes, size));
        table_cell(&table, "%s", checkpoint_time(row->entry.written_s, written));
        if (known)
            table_cell(&table, "%s", states[row->state]);
    }
    table_print(&table, NAME_WIDTH, out);
    table_fini(&table);
    put_reasons(rows, out);
}

/* ---- as JSON ---- */

static void put_state(struct json_out *json, enum state state, const tri_error *why)
{
    if (state == UNKNOWN)
        json_out_string(json, "whole", NULL);
    else
        json_out_bool(json, "whole", state == WHOLE);
    json_out_string(json, "where", state == DAMAGED ? why->where : NULL);
    json_out_string(json, "why", state == DAMAGED ? why->why : NULL);
}

static void put_json(const struct rows *rows, struct buf *out)
{
    struct json_out json;
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_string(&json, "folder", rows->folder);
    json_out_array(&json, "checkpoints");
    for (size_t i = 0; i < rows->count; i++) {
        const struct row *row = &rows->at[i];
        char written[CHECKPOINT_TIME];
        json_out_object(&json, NULL);
        json_out_string(&json, "name", row->entry.name);
        json_out_count(&json, "clock", row->entry.clock);
        json_out_count(&json, "bytes", row->entry.bytes);
        json_out_string(&json, "written", checkpoint_time(row->entry.written_s, written));
        put_state(&json, row->state, &row->why);
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_close(&json);
}

/* ---- ls and verify ---- */

static tri_status run_folder(struct cli *cli, const struct checkpoint_settings *settings,
                             const char *folder, bool verify, struct rows *rows, struct buf *out,
                             tri_error *err)
{
    tri_status status = open_rows(cli, folder, rows, err);
    if (status == TRI_OK && verify)
        status = verify_rows(cli, rows, err);
    if (status != TRI_OK)
        return status;
    if (settings->json)
        put_json(rows, out);
    else
        put_table(rows, out);
    return TRI_OK;
}

static tri_status run_ls(struct cli *cli, const struct checkpoint_settings *settings,
                         const char *path, bool folder, struct buf *out, tri_error *err)
{
    struct rows rows = {0};
    if (!folder) {
        fail(err, TRI_EINPUT, "'%.150s' is a file, and ls lists a folder", path);
        fail_next(err, "trident checkpoint show %.150s", path);
        return TRI_EINPUT;
    }
    tri_status status = run_folder(cli, settings, path, settings->verify, &rows, out, err);
    mem_free(cli->mem, rows.at);
    return status;
}

static tri_status tell_damaged(struct cli *cli, const struct rows *rows, tri_error *err)
{
    cli->keep = true;
    fail(err, TRI_EINPUT, "%zu of the %zu checkpoints in '%.120s' %s damaged", rows->damaged,
         rows->count, rows->folder, rows->damaged == 1 ? "is" : "are");
    if (rows->newest != NULL)
        fail_next(err, "a job that resumes takes the newest whole one, %s; remove the damaged ones",
                  rows->newest->entry.name);
    else
        fail_next(err, "copy them again from where they came, or begin anew in another folder");
    return TRI_EINPUT;
}

static tri_status verify_file(struct cli *cli, const struct checkpoint_settings *settings,
                              const char *path, struct buf *out, tri_error *err)
{
    tri_status status = checkpoint_verify(path, cli->mem, err);
    if (status != TRI_OK && status != TRI_EINPUT)
        return status;
    if (settings->json) {
        struct json_out json;
        json_out_init(&json, out, 1);
        json_out_object(&json, NULL);
        json_out_string(&json, "path", path);
        put_state(&json, status == TRI_OK ? WHOLE : DAMAGED, err);
        json_out_close(&json);
        cli->keep = true;
    } else if (status == TRI_OK) {
        buf_format(out, "%s: ok\n", path);
    }
    return status;
}

static tri_status run_verify(struct cli *cli, const struct checkpoint_settings *settings,
                             const char *path, bool folder, struct buf *out, tri_error *err)
{
    struct rows rows = {0};
    if (!folder)
        return verify_file(cli, settings, path, out, err);
    tri_status status = run_folder(cli, settings, path, true, &rows, out, err);
    if (status == TRI_OK && rows.damaged > 0)
        status = tell_damaged(cli, &rows, err);
    mem_free(cli->mem, rows.at);
    return status;
}

static tri_status run_show(struct cli *cli, const struct checkpoint_settings *settings,
                           const char *path, bool folder, struct buf *out, tri_error *err)
{
    struct buf newest;
    if (!folder)
        return checkpoint_show(cli, settings, path, out, err);
    buf_init(&newest, cli->mem);
    tri_status status = checkpoint_pick(cli, path, &newest, err);
    if (status == TRI_OK)
        status = checkpoint_show(cli, settings, buf_string(&newest), out, err);
    buf_fini(&newest);
    return status;
}

/* ---- the command ---- */

static const struct action {
    const char *name;
    tri_status (*run)(struct cli *cli, const struct checkpoint_settings *settings, const char *path,
                      bool folder, struct buf *out, tri_error *err);
} actions[] = {{"ls", run_ls}, {"show", run_show}, {"verify", run_verify}};

enum { ACTIONS = sizeof actions / sizeof actions[0] };

static const char *action_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return i < ACTIONS ? actions[i].name : NULL;
}

static const struct action *find_action(const struct arguments *arguments, tri_error *err)
{
    char next[NAMES_TEXT];
    for (size_t i = 0; i < ACTIONS && arguments->count > 0; i++)
        if (names_equal(actions[i].name, arguments->at[0]))
            return &actions[i];
    if (arguments->count == 0) {
        fail(err, TRI_EINPUT, "what is to be done is missing: ls, show or verify");
        fail_next(err, "trident checkpoint ls FOLDER");
    } else {
        fail(err, TRI_EINPUT, "unknown action '%.60s'", arguments->at[0]);
        names_advise(arguments->at[0], action_candidate, NULL, next);
        fail_next(err, "%s", next);
    }
    return NULL;
}

static tri_status check_path(const char *path, bool *folder, tri_error *err)
{
    struct file_facts facts;
    tri_status status = file_look(path, &facts, err);
    if (status == TRI_OK && facts.kind == FILE_NONE)
        status = fail(err, TRI_EINPUT, "there is no file or folder '%.200s'", path);
    if (status != TRI_OK)
        fail_next(err, "give the folder that a job was told to save in, or a file of it");
    *folder = facts.kind == FILE_FOLDER;
    return status;
}

static tri_status checkpoint_run(struct cli *cli, const void *settings_,
                                 const struct arguments *arguments, struct buf *out, tri_error *err)
{
    const struct checkpoint_settings *settings = settings_;
    const struct action *action = find_action(arguments, err);
    bool folder;
    if (action == NULL)
        return TRI_EINPUT;
    if (arguments->count < 2) {
        fail(err, TRI_EINPUT, "'%s' needs a %s", action->name,
             action->run == run_ls ? "folder" : "file or a folder");
        fail_next(err, "trident checkpoint %s FOLDER", action->name);
        return TRI_EINPUT;
    }
    if (settings->verify && action->run != run_ls) {
        fail(err, TRI_EINPUT, "--verify belongs to ls");
        fail_next(err, "trident checkpoint verify %.150s", arguments->at[1]);
        return TRI_EINPUT;
    }
    tri_status status = check_path(arguments->at[1], &folder, err);
    if (status != TRI_OK)
        return status;
    return action->run(cli, settings, arguments->at[1], folder, out, err);
}

#define FIELD(name) .offset = offsetof(struct checkpoint_settings, name)

static const struct option_row checkpoint_options[] = {
    {.name = "verify",
     .type = OPTION_FLAG,
     FIELD(verify),
     .help = "of ls: read each to its end, and say whether it is whole"},
    {.name = "json",
     .help = "one JSON document instead of a table",
     .type = OPTION_FLAG,
     FIELD(json)},
    {.name = NULL},
};

extern const struct command command_checkpoint;
const struct command command_checkpoint = {
    .name = "checkpoint",
    .summary = "what a job has saved to go on from, and whether it is whole",
    .arguments = "ls|show|verify FOLDER|FILE",
    .max_arguments = 2,
    .options = checkpoint_options,
    .settings_bytes = sizeof(struct checkpoint_settings),
    .run = checkpoint_run,
    .about = "ls lists the checkpoints of a folder, newest first. show tells what one holds, or "
             "the newest of a folder: clock, job, optimiser, layers, values that the program "
             "keeps. verify reads one, or all of a folder, to the end, and compares the "
             "checksums; it ends with exit code 2 if any is damaged.\n\n"
             "A job that resumes takes the newest whole checkpoint by itself and says which it "
             "passed over. Files are in the safetensors format, which other programs read, too; "
             "docs/checkpoint.md in the source tree has the details.",
    .examples = "trident checkpoint ls runs/night\n"
                "trident checkpoint show runs/night\n"
                "trident checkpoint verify runs/night/clock-000000001000.safetensors\n"
                "trident checkpoint ls runs/night --verify --json",
};
