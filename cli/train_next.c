/* The commands that the summary of a run ends with: with what they need to work, and no more. */
#include <string.h>

#include "cli/train.h"

/* As a shell takes it. */
static void put_word(const char *word, struct buf *out)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_-./:=,+@%";
    if (word[strspn(word, plain)] == '\0') {
        buf_text(out, word);
        return;
    }
    buf_char(out, '\'');
    for (; *word != '\0'; word++)
        if (*word == '\'')
            buf_text(out, "'\\''");
        else
            buf_char(out, *word);
    buf_char(out, '\'');
}

static void put_option(const char *name, const char *value, struct buf *out)
{
    buf_format(out, " --%s ", name);
    put_word(value, out);
}

/* What says how tables are read. */
static void put_columns(const struct train_settings *settings, struct buf *out)
{
    if (settings->label_column > 0)
        buf_format(out, " --label-column %llu", (unsigned long long)settings->label_column);
    if (settings->text_column > 0)
        buf_format(out, " --text-column %llu", (unsigned long long)settings->text_column);
    if (settings->header != DATA_HEADER_AUTO)
        put_option("header", train_headers[settings->header], out);
}

/* The command on these data, and nothing of how it trains. */
static void put_train(const struct train_settings *settings, struct buf *out)
{
    buf_text(out, "trident train");
    put_option("data", settings->data, out);
    if (settings->test != NULL)
        put_option("test", settings->test, out);
    put_columns(settings, out);
    put_option("model", settings->model, out);
}

/* What does not go with copies of their own is left out: the command is to work as it stands. */
void train_next_learners(const struct train_settings *settings, bool sgd, struct buf *out)
{
    const char *local = train_locals[settings->local];
    bool copies = strcmp(local, "replicas") == 0;
    uint64_t count = settings->workers > 1 ? settings->workers : 2;
    put_train(settings, out);
    buf_format(out, " --learners %llu",
               (unsigned long long)(count < TRAIN_LEARNERS_MAX ? count : TRAIN_LEARNERS_MAX));
    if (settings->local > 0)
        put_option("local", local, out);
    if (settings->locked && !copies)
        buf_text(out, " --locked");
    if (settings->restarts != TRAIN_RESTARTS)
        buf_format(out, " --learner-restarts %llu", (unsigned long long)settings->restarts);
    if (settings->exchange_every > 1 && !copies)
        buf_format(out, " --exchange-every %llu", (unsigned long long)settings->exchange_every);
    if (sgd)
        put_option("optimizer", "sgd", out);
}

static bool has_kind(const char *data)
{
    static const char *const kinds[] = {"fashion-mnist", "mnist", "idx", "cifar10", "csv", "tsv"};
    size_t len = strcspn(data, ":");
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (strlen(kinds[i]) == len && strncmp(kinds[i], data, len) == 0)
            return true;
    return false;
}

/* On what the model was tested with. Test data may be a path alone, of the kind of --data. */
static void put_predict(const struct train_settings *settings, struct buf *out)
{
    const char *data = settings->test != NULL ? settings->test : settings->data;
    struct buf spec;
    buf_init(&spec, out->mem);
    if (!has_kind(data))
        buf_format(&spec, "%.*s:", (int)strcspn(settings->data, ":"), settings->data);
    buf_text(&spec, data);
    buf_text(out, "  trident predict");
    put_option("model", settings->out, out);
    put_option("data", buf_string(&spec), out);
    put_columns(settings, out);
    buf_char(out, '\n');
    out->refused = out->refused || spec.refused;
    buf_fini(&spec);
}

/* ---- the same run again ---- */

enum { WITHOUT = 5 };

static bool is_among(const char *const *names, const char *name)
{
    for (; *names != NULL; names++)
        if (strcmp(*names, name) == 0)
            return true;
    return false;
}

/* An option that was given, unless it only says what holds anyway. */
static void put_given(const struct option_row *row, const struct train_settings *settings,
                      struct buf *out)
{
    const void *field = (const char *)settings + row->offset;
    char number[24];
    const char *value = NULL;
    switch (row->type) {
    case OPTION_FLAG:
        if (*(const bool *)field)
            buf_format(out, " --%s", row->name);
        return;
    case OPTION_TEXT:
        value = *(const char *const *)field;
        break;
    case OPTION_CHOICE:
        value = row->choices[*(const unsigned *)field];
        break;
    case OPTION_COUNT:
        (void)snprintf(number, sizeof number, "%llu", (unsigned long long)*(const uint64_t *)field);
        value = row->fallback == NULL && strcmp(number, "0") == 0 ? NULL : number;
        break;
    default: /* this command has no others */
        return;
    }
    if (value != NULL && (row->fallback == NULL || strcmp(value, row->fallback) != 0))
        put_option(row->name, value, out);
}

/* The run as it was asked for, without what is written, where it is saved, and those of `without`,
 * a list that ends with NULL. */
static void put_again(const struct train_settings *settings, const char *const *without,
                      struct buf *out)
{
    static const char *const never[] = {"data",   "test",  "label-column", "text-column",
                                        "header", "model", "checkpoint",   "checkpoint-every",
                                        "resume", "out",   "profile",      "json",
                                        NULL};
    buf_text(out, "  ");
    put_train(settings, out);
    for (const struct option_row *row = train_rows; row->name != NULL; row++)
        if (!is_among(never, row->name) && !is_among(without, row->name))
            put_given(row, settings, out);
}

/* In rounds, or at their own pace if it was that: then without momentum, which diverges there, and
 * the rate that goes with it. Exchanging seldom needs sgd, which is not the default in rounds. */
static void put_other_local(const struct train_request *request, struct buf *out)
{
    const struct train_settings *settings = &request->settings;
    bool rounds = strcmp(request->local, "sync") == 0;
    bool another = rounds && strcmp(request->optimizer, "sgd") != 0;
    const char *const without[WITHOUT] = {"local", another ? "optimizer" : NULL, "momentum", "lr",
                                          NULL};
    put_again(settings, without, out);
    if (!rounds)
        put_option("local", "sync", out);
    if (settings->exchange_every > 1 && settings->optimizer == NULL && settings->momentum == NULL)
        put_option("optimizer", "sgd", out);
    buf_char(out, '\n');
}

/* With servers, or as the planner chooses if it was that. */
static void put_other_scheme(const struct train_outcome *outcome,
                             const struct train_settings *settings, struct buf *out)
{
    static const char *const without[] = {"workers", "scheme", NULL};
    put_again(settings, without, out);
    buf_format(out, " --workers %u", (unsigned)(outcome->workers > 1 ? outcome->workers : 2));
    if (outcome->workers < 2 || strcmp(settings->scheme, "ps") != 0)
        put_option("scheme", "ps", out);
    buf_char(out, '\n');
}

void train_next(const struct train_outcome *outcome, const struct train_request *request,
                struct buf *out)
{
    static const char *const all[] = {NULL}, *const but_length[] = {"epochs", "iterations", NULL};
    const struct train_settings *settings = &request->settings;
    const char *model = settings->model;
    buf_text(out, "\nTry next:\n");
    if (settings->out != NULL) {
        put_predict(settings, out);
    } else {
        put_again(settings, all, out);
        buf_format(out, " --out %.*s.safetensors\n", (int)strcspn(model, ":"), model);
    }
    if (settings->learners > 0)
        put_other_local(request, out);
    else
        put_other_scheme(outcome, settings, out);
    if (settings->profile)
        return;
    put_again(settings, but_length, out);
    buf_text(out, " --iterations 100 --profile\n");
}
