/* The papers' numbers beside ours. */
#include "cli/claims.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/json_out.h"
#include "cli/models.h"
#include "sim/claims.h"

/* Profiles by name, each read once. */
struct shelf {
    const struct cli *cli;
    const struct claims_call *call;
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

static bool is_stopped(void *ctx)
{
    const struct shelf *shelf = ctx;
    return shelf->call->stop(shelf->call->ctx);
}

static void clear(struct shelf *shelf)
{
    for (size_t i = 0; i < shelf->count; i++)
        profile_free(shelf->profiles[i]);
}

/* ---- what came out ---- */

struct outcome {
    const struct claim_result *results;
    size_t done, total;
};

struct tally {
    size_t main, main_within;
    size_t numbers, numbers_within;
    size_t shapes, shapes_hold;
};

static bool is_within(const struct claim *claim, double ours)
{
    return fabs(claim_difference(claim, ours)) <= CLAIM_WITHIN;
}

static struct tally count_up(const struct outcome *outcome)
{
    struct tally tally = {0};
    for (size_t i = 0; i < outcome->done; i++) {
        const struct claim *claim = claim_at(i);
        double ours = outcome->results[i].ours;
        if (claim->test != CLAIM_NUMBER) {
            tally.shapes++;
            tally.shapes_hold += claim_holds(claim, ours);
            continue;
        }
        tally.numbers++;
        tally.numbers_within += is_within(claim, ours);
        tally.main += claim_is_main(claim);
        tally.main_within += claim_is_main(claim) && is_within(claim, ours);
    }
    return tally;
}

/* ---- text ---- */

/* A text in lines of at most 100 characters. The first begins where the cursor is, in column
 * `column`; the others there, too. */
static void print_wrapped(const char *text, size_t column, struct buf *out)
{
    size_t at = column;
    while (*text != '\0') {
        size_t length = strcspn(text, " ");
        if (at > column && at + 1 + length > 100) {
            buf_char(out, '\n');
            buf_fill(out, ' ', column);
            at = column;
        }
        if (at > column) {
            buf_char(out, ' ');
            at++;
        }
        buf_add(out, text, length);
        at += length;
        text += length + (text[length] == ' ');
    }
    buf_char(out, '\n');
}

static void print_other(const struct claim *claim, double other, char *text, size_t room)
{
    char as[CLAIM_TEXT];
    size_t used = strlen(text);
    (void)snprintf(text + used, room - used, "%sas %s: %.2f", used > 0 ? "; " : "",
                   claim_other_settings(claim, as), other);
    used = strlen(text);
    if (!isnan(claim_difference(claim, other)))
        (void)snprintf(text + used, room - used, " (%+.1f %%)",
                       100 * claim_difference(claim, other));
}

/* Under the row, where the columns do not say all. */
static void print_more(const struct claim *claim, const struct claim_result *result,
                       struct buf *out)
{
    char text[2 * CLAIM_TEXT + 60];
    (void)claim_own_settings(claim, text);
    if (claim->other.model != NULL)
        print_other(claim, result->other, text, sizeof text);
    if (text[0] == '\0')
        return;
    buf_fill(out, ' ', 6);
    print_wrapped(text, 6, out);
}

static void print_row(const struct claim *claim, const struct claim_result *result, struct buf *out)
{
    char gbit[16] = "", difference[32] = "";
    const char *holds = claim->test == CLAIM_NUMBER ? "" : "no";
    if (claim->gbit > 0)
        (void)snprintf(gbit, sizeof gbit, "%g", claim->gbit);
    if (!isnan(claim_difference(claim, result->ours)))
        (void)snprintf(difference, sizeof difference, "%+.1f %%",
                       100 * claim_difference(claim, result->ours));
    if (claim->test != CLAIM_NUMBER && claim_holds(claim, result->ours))
        holds = "yes";
    buf_format(out, "%-4s  %-10s  %-9s  %-12s  %5u  %6s  %-14s  %9.2f", claim->id, claim->what,
               claim->ours.system, claim_model_name(claim->ours.model), (unsigned)claim->nodes,
               gbit, claim->paper, result->ours);
    if (holds[0] != '\0')
        buf_format(out, "  %8s  %s", difference, holds);
    else
        buf_format(out, "  %8s", difference);
    buf_char(out, '\n');
    print_more(claim, result, out);
}

static bool is_of(const struct claim *claim, const struct claim_paper *paper)
{
    return claim_paper_of(claim) == paper;
}

/* The names of the profiles, which the table shows as the papers write them. */
static void print_profiles(const struct outcome *outcome, const struct claim_paper *paper,
                           struct buf *out)
{
    char text[400] = "";
    for (size_t i = 0; i < outcome->done; i++) {
        const char *model = claim_at(i)->ours.model;
        bool seen = !is_of(claim_at(i), paper);
        for (size_t j = 0; j < i && !seen; j++)
            seen = is_of(claim_at(j), paper) && strcmp(claim_at(j)->ours.model, model) == 0;
        size_t used = strlen(text);
        if (!seen)
            (void)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? ", " : "", model);
    }
    buf_text(out, "  profiles  ");
    print_wrapped(text, 12, out);
}

static void print_notes(const struct outcome *outcome, const struct claim_paper *paper,
                        struct buf *out)
{
    const char *last = NULL;
    buf_text(out, "\nNotes\n");
    for (size_t i = 0; i < outcome->done; i++) {
        const struct claim *claim = claim_at(i);
        if (!is_of(claim, paper) || claim->note == NULL || claim->note == last)
            continue;
        last = claim->note;
        buf_format(out, "%-4s  ", claim->id);
        print_wrapped(claim->note, 6, out);
    }
}

static void print_paper(const struct outcome *outcome, const struct claim_paper *paper,
                        struct buf *out)
{
    char text[CLAIM_TEXT];
    buf_format(out, "\nSimulated: %s\n  setting   ", paper->name);
    print_wrapped(claim_settings(paper, text), 12, out);
    buf_text(out, "  why       ");
    print_wrapped(paper->reason, 12, out);
    print_profiles(outcome, paper, out);
    buf_format(out, "\n%-4s  %-10s  %-9s  %-12s  %5s  %6s  %-14s  %9s  %8s  %s\n", "id", "what",
               "system", "model", "nodes", "Gbit/s", "paper", "simulated", "diff", "holds");
    for (size_t i = 0; i < outcome->done; i++)
        if (is_of(claim_at(i), paper))
            print_row(claim_at(i), &outcome->results[i], out);
    print_notes(outcome, paper, out);
}

/* What a word of a paper is tested by; "below 1" and "above 1" need no words. */
static void print_tests(struct buf *out)
{
    char text[600] = "";
    for (enum claim_test test = CLAIM_LINEAR; test <= CLAIM_NONE; test++) {
        const struct claim *claim = NULL;
        for (size_t i = 0; (claim = claim_at(i)) != NULL && claim->test != test;)
            i++;
        size_t used = strlen(text);
        if (claim != NULL)
            (void)snprintf(text + used, sizeof text - used, "%s%s: %s", used > 0 ? "; " : "",
                           claim->paper, claim_test_text(test));
    }
    buf_text(out, "holds     ");
    print_wrapped(text, 10, out);
}

static bool is_met(const struct claim *claim, double ours)
{
    return claim->test == CLAIM_NUMBER ? is_within(claim, ours) : claim_holds(claim, ours);
}

/* Those with a number, or those without, that do not come out as the paper says. */
static void print_missed(const struct outcome *outcome, bool numbers, struct buf *out)
{
    const char *before = "          not ";
    for (size_t i = 0; i < outcome->done; i++) {
        const struct claim *claim = claim_at(i);
        double ours = outcome->results[i].ours;
        if ((claim->test == CLAIM_NUMBER) != numbers || is_met(claim, ours))
            continue;
        buf_format(out, "%s%s", before, claim->id);
        if (numbers)
            buf_format(out, " (%+.1f %%)", 100 * claim_difference(claim, ours));
        before = ", ";
    }
    if (before[0] == ',')
        buf_text(out, "; the notes say why\n");
}

static void print_summary(const struct outcome *outcome, struct buf *out)
{
    struct tally tally = count_up(outcome);
    double percent = 100 * CLAIM_WITHIN;
    buf_text(out, "\nSummary\n");
    buf_format(out, "numbers   %zu of %zu within %g %%;", tally.numbers_within, tally.numbers,
               percent);
    for (size_t i = 0; i < outcome->done; i++)
        if (claim_is_main(claim_at(i)))
            buf_format(out, " %s", claim_at(i)->id);
    buf_format(out, ": %zu of %zu\n", tally.main_within, tally.main);
    print_missed(outcome, true, out);
    buf_format(out, "shapes    %zu of %zu hold\n", tally.shapes_hold, tally.shapes);
    print_missed(outcome, false, out);
    print_tests(out);
}

static void print_text(const struct outcome *outcome, struct buf *out)
{
    const struct claim_paper *paper;
    if (outcome->done == 0)
        return;
    buf_text(out, "What the papers say beside what the simulation gives, one setting a paper\n");
    for (size_t i = 0; (paper = claim_paper_at(i)) != NULL; i++)
        if (claim_paper_of(claim_at(outcome->done - 1)) >= paper)
            print_paper(outcome, paper, out);
    print_summary(outcome, out);
}

/* ---- JSON ---- */

static void json_papers(struct json_out *json)
{
    const struct claim_paper *paper;
    char text[CLAIM_TEXT];
    json_out_array(json, "papers");
    for (size_t i = 0; (paper = claim_paper_at(i)) != NULL; i++) {
        char letter[2] = {paper->letter, '\0'};
        json_out_object(json, NULL);
        json_out_string(json, "ids", letter);
        json_out_string(json, "name", paper->name);
        json_out_string(json, "settings", claim_settings(paper, text));
        json_out_string(json, "reason", paper->reason);
        json_out_close(json);
    }
    json_out_close(json);
}

static void json_side(const struct claim_case *one, const char *key, struct json_out *json)
{
    json_out_object(json, key);
    json_out_string(json, "model", one->model);
    json_out_string(json, "system", one->system);
    json_out_close(json);
}

static void json_row(const struct claim *claim, const struct claim_result *result,
                     struct json_out *json)
{
    char text[CLAIM_TEXT], settings[2 * CLAIM_TEXT], own[CLAIM_TEXT];
    (void)claim_own_settings(claim, own);
    (void)snprintf(settings, sizeof settings, "%s%s%s", claim_settings(claim_paper_of(claim), text),
                   own[0] != '\0' ? "; " : "", own);
    json_out_object(json, NULL);
    json_out_string(json, "id", claim->id);
    json_out_string(json, "what", claim_sentence(claim, text));
    json_out_string(json, "model", claim->ours.model);
    json_out_string(json, "system", claim->ours.system);
    if (claim->over != NULL)
        json_side(&claim->against, "against", json);
    else
        json_out_string(json, "against", NULL);
    json_out_count(json, "nodes", claim->nodes);
    json_out_number(json, "gbit", claim->gbit > 0 ? claim->gbit : NAN);
    json_out_string(json, "paper", claim->paper);
    json_out_number(json, "ours", result->ours);
    json_out_number(json, "diff", claim_difference(claim, result->ours));
    if (claim->test == CLAIM_NUMBER)
        json_out_string(json, "holds", NULL);
    else
        json_out_bool(json, "holds", claim_holds(claim, result->ours));
    json_out_string(json, "test", claim_test_text(claim->test));
    json_out_string(json, "other_settings", claim_other_settings(claim, text));
    json_out_number(json, "other", result->other);
    json_out_number(json, "other_diff", claim_difference(claim, result->other));
    json_out_string(json, "settings", settings);
    json_out_string(json, "own_settings", own);
    json_out_string(json, "note", claim->note);
    json_out_close(json);
}

static void json_summary(const struct outcome *outcome, struct json_out *json)
{
    struct tally tally = count_up(outcome);
    json_out_object(json, "summary");
    json_out_number(json, "within", CLAIM_WITHIN);
    json_out_count(json, "main", tally.main);
    json_out_count(json, "main_within", tally.main_within);
    json_out_count(json, "numbers", tally.numbers);
    json_out_count(json, "numbers_within", tally.numbers_within);
    json_out_count(json, "shapes", tally.shapes);
    json_out_count(json, "shapes_hold", tally.shapes_hold);
    json_out_close(json);
}

static void print_json(const struct outcome *outcome, struct buf *out)
{
    struct json_out json;
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_string(&json, "kind", "simulated");
    json_out_bool(&json, "complete", outcome->done == outcome->total);
    json_papers(&json);
    json_out_array(&json, "claims");
    for (size_t i = 0; i < outcome->done; i++)
        json_row(claim_at(i), &outcome->results[i], &json);
    json_out_close(&json);
    json_summary(outcome, &json);
    json_out_close(&json);
}

/* ---- running ---- */

/* Counts what is finished into outcome->done, also where it fails. */
static tri_status run_all(struct outcome *outcome, struct claim_result *results,
                          struct shelf *shelf, tri_error *err)
{
    const struct claims_call *call = shelf->call;
    struct claim_tools tools = {
        .mem = shelf->cli->mem, .ctx = shelf, .find = find, .stop = is_stopped};
    tri_status status = TRI_OK;
    while (outcome->done < outcome->total && status == TRI_OK && !call->stop(call->ctx)) {
        call->progress(call->ctx, outcome->done, outcome->total);
        status = claim_run(claim_at(outcome->done), &tools, &results[outcome->done], err);
        outcome->done += status == TRI_OK;
    }
    if (outcome->done == outcome->total || !call->stop(call->ctx))
        return status;
    fail(err, TRI_EPEER, "interrupted after %zu of %zu claims", outcome->done, outcome->total);
    fail_next(err, "what was finished is on stdout; all of them take a few seconds");
    return TRI_EPEER;
}

tri_status claims_run(struct cli *cli, const struct claims_call *call, struct buf *out,
                      tri_error *err)
{
    struct shelf shelf = {.cli = cli, .call = call};
    struct outcome outcome = {0};
    while (claim_at(outcome.total) != NULL)
        outcome.total++;
    struct claim_result *results = mem_array(cli->mem, outcome.total, sizeof *results);
    if (results == NULL)
        return fail_nomem(err, "the claims");
    outcome.results = results;
    tri_status status = run_all(&outcome, results, &shelf, err);
    cli->keep = status == TRI_EPEER && outcome.done < outcome.total && call->stop(call->ctx);
    if ((status == TRI_OK || cli->keep) && call->json)
        print_json(&outcome, out);
    else if (status == TRI_OK || cli->keep)
        print_text(&outcome, out);
    clear(&shelf);
    mem_free(cli->mem, results);
    return status;
}
