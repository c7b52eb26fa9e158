/* The papers' numbers beside ours. */
#include "cli/claims.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_out.h"
#include "cli/models.h"
#include "cli/table.h"
#include "sim/claims.h"

/* Profiles by name, each read once. */
struct shelf {
    const struct cli *cli;
    const char *names[16];
    struct profile *profiles[16];
    size_t count;
};

static const struct profile *find(void *ctx, const char *name, tri_error *err)
{
    struct shelf *shelf = ctx;
    for (size_t i = 0; i < shelf->count; i++)
        if (strcmp(shelf->names[i], name) == 0)
            return shelf->profiles[i];
    size_t room = sizeof shelf->names / sizeof shelf->names[0];
    struct profile *profile = NULL;
    if (shelf->count == room || models_load(shelf->cli, name, &profile, err) != TRI_OK)
        return NULL;
    shelf->names[shelf->count] = name;
    shelf->profiles[shelf->count++] = profile;
    return profile;
}

static void clear(struct shelf *shelf)
{
    for (size_t i = 0; i < shelf->count; i++)
        profile_free(shelf->profiles[i]);
}

static size_t count_claims(void)
{
    size_t count = 0;
    while (claim_at(count) != NULL)
        count++;
    return count;
}

/* ---- text ---- */

static void print_table(const double *ours, size_t done, const struct mem *mem, struct buf *out)
{
    struct table table;
    table_init(&table, mem, "lllrr");
    table_cell(&table, "claim");
    table_cell(&table, "what");
    table_cell(&table, "paper");
    table_cell(&table, "simulated");
    table_cell(&table, "difference");
    for (size_t i = 0; i < done; i++) {
        const struct claim *claim = claim_at(i);
        table_cell(&table, "%s", claim->id);
        table_cell(&table, "%s", claim->what);
        table_cell(&table, "%s", claim->paper);
        table_cell(&table, "%.2f", ours[i]);
        if (isnan(claim->value))
            table_cell(&table, "%s", "");
        else
            table_cell(&table, "%+.1f %%", 100 * (ours[i] / claim->value - 1));
    }
    table_print(&table, 60, out);
    table_fini(&table);
}

/* A text in lines of at most 96 characters, each begun by `indent` spaces. */
static void print_wrapped(const char *text, int indent, struct buf *out)
{
    int column = 0;
    for (const char *at = text; *at != '\0';) {
        int length = (int)strcspn(at, " ");
        if (column > 0 && column + 1 + length > 96) {
            buf_char(out, '\n');
            column = 0;
        }
        if (column == 0) {
            buf_fill(out, ' ', (size_t)indent);
            column = indent;
        } else {
            buf_char(out, ' ');
            column++;
        }
        buf_add(out, at, (size_t)length);
        column += length;
        at += length + (at[length] == ' ');
    }
    buf_char(out, '\n');
}

static void print_settings(size_t done, struct buf *out)
{
    const char *last = "";
    for (size_t i = 0; i < done; i++) {
        const struct claim *claim = claim_at(i);
        if (claim->id[0] == last[0])
            continue;
        last = claim->id;
        buf_format(out, "\nAll %c rows, %s: %s.\n", claim->id[0],
                   claim->id[0] == 'P' ? "Poseidon" : "the thesis", claim_settings(claim));
        print_wrapped(claim_reason(claim), 2, out);
    }
    buf_text(out, "\nNotes\n");
    for (size_t i = 0; i < done; i++)
        if (claim_at(i)->note != NULL) {
            char line[300];
            (void)snprintf(line, sizeof line, "%s  %s", claim_at(i)->id, claim_at(i)->note);
            print_wrapped(line, 2, out);
        }
}

/* ---- JSON ---- */

static void print_json(const double *ours, size_t done, struct buf *out)
{
    struct json_out json;
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_array(&json, "claims");
    for (size_t i = 0; i < done; i++) {
        const struct claim *claim = claim_at(i);
        json_out_object(&json, NULL);
        json_out_string(&json, "id", claim->id);
        json_out_string(&json, "what", claim->what);
        json_out_string(&json, "paper", claim->paper);
        json_out_number(&json, "ours", ours[i]);
        json_out_number(&json, "diff", ours[i] / claim->value - 1);
        json_out_string(&json, "settings", claim_settings(claim));
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_close(&json);
}

/* ---- running ---- */

tri_status claims_run(const struct cli *cli, const struct claims_call *call, struct buf *out,
                      tri_error *err)
{
    struct shelf shelf = {.cli = cli};
    struct claim_models models = {.ctx = &shelf, .find = find};
    size_t count = count_claims(), done = 0;
    double *ours = mem_array(cli->mem, count, sizeof *ours);
    tri_status status = TRI_OK;
    if (ours == NULL)
        return fail_nomem(err, "the claims");
    while (status == TRI_OK && done < count && !call->stop(call->ctx)) {
        call->progress(call->ctx, done, count);
        status = claim_run(claim_at(done), &models, cli->mem, &ours[done], err);
        done += status == TRI_OK;
    }
    if (status == TRI_OK && call->json) {
        print_json(ours, done, out);
    } else if (status == TRI_OK) {
        print_table(ours, done, cli->mem, out);
        print_settings(done, out);
    }
    clear(&shelf);
    mem_free(cli->mem, ours);
    return status;
}
