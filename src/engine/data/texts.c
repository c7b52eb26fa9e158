/* Reads tables of labels and texts. */
#include "engine/data/texts.h"

#include <string.h>
#include <strings.h>

#include "base/rng.h"
#include "engine/data/gz.h"
#include "engine/data/table.h"
#include "engine/data/words.h"

enum { LABEL_MAX = 200, LENGTH_MAX = 256, HELD_OUT = 10 /* one in so many */ };

struct row {
    const char *text;
    uint32_t len, label;
};

/* A whole table, with the text of the file that its rows point into. */
struct rows {
    const struct texts_source *source;
    struct buf file;
    struct row *rows;
    size_t count, cap;
    bool labelled;
    struct vocabulary *classes;
    bool fixed;               /* classes: a label that is none of them is an error */
    size_t label_at, text_at; /* columns, from 0 */
    bool guessed;             /* neither an option nor a header has said where labels are */
};

static const char *const text_names[] = {"text",     "sentence", "utterance",
                                         "question", "query",    "review"};
static const char *const label_names[] = {"label",  "category", "class",
                                          "intent", "target",   "sentiment"};
enum { NAMES = 6 };
#define NOWHERE SIZE_MAX

/* The first cell that is one of six names. */
static size_t find_named(const struct table *table, const char *const *names)
{
    for (size_t i = 0; i < table->columns; i++)
        for (size_t n = 0; n < NAMES; n++)
            if (table->cells[i].len == strlen(names[n]) &&
                strncasecmp(table->cells[i].text, names[n], table->cells[i].len) == 0)
                return i;
    return NOWHERE;
}

static tri_status wrong_columns(const struct table *table, tri_error *err)
{
    fail_where(err, "%s:%llu", table->name, (unsigned long long)table->line);
    return TRI_EINPUT;
}

static tri_status check_column(const struct table *table, const char *what, size_t column,
                               tri_error *err)
{
    if (column < table->columns)
        return TRI_OK;
    fail(err, TRI_EINPUT, "'%s' has no column %zu for the %s", table->name, column + 1, what);
    fail_why(err, "it has %zu column%s", table->columns, table->columns == 1 ? "" : "s");
    fail_next(err, "say which column it is (--%s-column), or check that rows are what --data says",
              what);
    return wrong_columns(table, err);
}

/* Which columns to take, from the options, a header's names (or NOWHERE), or where they usually
 * stand. */
static tri_status choose_columns(struct rows *rows, const struct table *table, size_t label,
                                 size_t text, tri_error *err)
{
    const struct data_options *options = rows->source->options;
    if (options->label_column > 0)
        label = options->label_column - 1;
    if (options->text_column > 0)
        text = options->text_column - 1;
    if (table->columns == 1 && !rows->labelled && text == NOWHERE)
        text = 0;
    rows->guessed = label == NOWHERE;
    if (label == NOWHERE)
        label = text == 0 ? 1 : 0;
    if (text == NOWHERE)
        text = label == 1 ? 0 : 1;
    rows->label_at = label;
    rows->text_at = text;
    tri_status status = check_column(table, "text", text, err);
    if (status != TRI_OK || !rows->labelled)
        return status;
    if (label == text) {
        fail(err, TRI_EINPUT, "column %zu of '%s' cannot be both label and text", label + 1,
             table->name);
        fail_next(err, "give --label-column and --text-column");
        return wrong_columns(table, err);
    }
    return check_column(table, "label", label, err);
}

/* Looks at the first row: is it a header, and where is what? */
static tri_status look_at_first(struct rows *rows, const struct table *table, bool *header,
                                tri_error *err)
{
    enum data_header wish = rows->source->options->header;
    size_t label = find_named(table, label_names), text = find_named(table, text_names);
    *header = wish == DATA_HEADER_YES || (wish == DATA_HEADER_AUTO && text != NOWHERE &&
                                          (label != NOWHERE || !rows->labelled));
    if (!*header)
        label = text = NOWHERE;
    return choose_columns(rows, table, label, text, err);
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static struct table_cell trim(struct table_cell cell)
{
    while (cell.len > 0 && is_space(cell.text[cell.len - 1]))
        cell.len--;
    while (cell.len > 0 && is_space(*cell.text)) {
        cell.text++;
        cell.len--;
    }
    return cell;
}

static tri_status bad_label(const struct table *table, struct table_cell cell, const char *problem,
                            const char *next, tri_error *err)
{
    fail(err, TRI_EINPUT, "the label '%.*s' %s", cell.len < 60 ? (int)cell.len : 60, cell.text,
         problem);
    fail_where(err, "%s:%llu", table->name, (unsigned long long)table->line);
    fail_next(err, "%s", next);
    return TRI_EINPUT;
}

static tri_status number_label(struct rows *rows, const struct table *table, uint32_t *out,
                               tri_error *err)
{
    struct table_cell cell = trim(table->cells[rows->label_at]);
    if (cell.len == 0)
        return bad_label(table, cell, "is empty", "give every row a label", err);
    if (cell.len > LABEL_MAX)
        return bad_label(table, cell, "is too long",
                         "check which column holds the labels (--label-column)", err);
    *out = rows->fixed ? vocabulary_find(rows->classes, cell.text, cell.len)
                       : vocabulary_add(rows->classes, cell.text, cell.len);
    if (*out != VOCABULARY_NONE)
        return TRI_OK;
    if (!rows->fixed)
        return fail_nomem(err, "labels");
    return bad_label(table, cell, "is none of those that were trained with",
                     "correct it, train with it, or check which column holds the labels", err);
}

static tri_status add_row(struct rows *rows, const struct table *table, tri_error *err)
{
    struct row row = {.text = table->cells[rows->text_at].text,
                      .len = (uint32_t)table->cells[rows->text_at].len};
    if (rows->labelled) {
        tri_status status = number_label(rows, table, &row.label, err);
        if (status != TRI_OK)
            return status;
    }
    void *list = rows->rows;
    if (mem_grow(rows->source->mem, &list, &rows->cap, rows->count + 1, sizeof row) == NULL)
        return fail_nomem(err, "the rows of a table");
    rows->rows = list;
    rows->rows[rows->count++] = row;
    return TRI_OK;
}

static tri_status read_rows(struct rows *rows, struct table *table, bool labels_needed,
                            tri_error *err)
{
    bool more, header = false;
    tri_status status = table_next(table, &more, err);
    if (status == TRI_OK && more) {
        rows->labelled =
            labels_needed || (!rows->source->options->unlabelled && table->columns > 1);
        status = look_at_first(rows, table, &header, err);
    }
    if (status == TRI_OK && header)
        status = table_next(table, &more, err);
    while (status == TRI_OK && more) {
        status = add_row(rows, table, err);
        if (status == TRI_OK)
            status = table_next(table, &more, err);
    }
    if (status == TRI_OK && rows->count == 0) {
        status = fail(err, TRI_EINPUT, "'%s' has no rows", table->name);
        fail_where(err, "%s:%llu", table->name, (unsigned long long)table->next_line);
        fail_next(err, "give a file with a label and a text in each row");
    }
    return status;
}

static tri_status rows_load(struct rows *rows, bool labels_needed, tri_error *err)
{
    const struct texts_source *source = rows->source;
    struct table table;
    buf_init(&rows->file, source->mem);
    tri_status status = gz_read(source->path, &rows->file, err);
    if (status != TRI_OK)
        return status;
    status = table_begin(&table, source->path, rows->file.data, rows->file.len, source->separator,
                         source->mem, err);
    if (status == TRI_OK)
        status = read_rows(rows, &table, labels_needed, err);
    table_close(&table);
    return status;
}

static void rows_fini(struct rows *rows)
{
    buf_fini(&rows->file);
    mem_free(rows->source->mem, rows->rows);
}

/* Tokens of samples, while they are being made. */
struct tokens {
    const struct mem *mem;
    struct vocabulary *words;
    bool learn; /* add new words; else they are unknown */
    size_t limit, longest;
    uint32_t *at;
    size_t count, cap;
};

static bool add_token(struct tokens *tokens, const struct words *word)
{
    uint32_t number = tokens->learn ? vocabulary_add(tokens->words, word->word, word->len)
                                    : vocabulary_find(tokens->words, word->word, word->len);
    if (number == VOCABULARY_NONE && tokens->learn)
        return false;
    void *at = tokens->at;
    if (mem_grow(tokens->mem, &at, &tokens->cap, tokens->count + 1, sizeof *tokens->at) == NULL)
        return false;
    tokens->at = at;
    tokens->at[tokens->count++] = number != VOCABULARY_NONE ? number : WORDS_UNKNOWN;
    return true;
}

static bool add_text(struct tokens *tokens, const struct row *row)
{
    struct words words;
    size_t before = tokens->count;
    words_begin(&words, row->text, row->len);
    while (tokens->count - before < tokens->limit && words_next(&words))
        if (!add_token(tokens, &words))
            return false;
    if (tokens->count - before > tokens->longest)
        tokens->longest = tokens->count - before;
    return true;
}

/* The rows of a part: those whose mark is as wanted (no marks: all). */
struct part {
    const struct rows *rows;
    const bool *held;
    bool want;
    size_t count;
};

static bool in_part(const struct part *part, size_t i)
{
    return part->held == NULL || part->held[i] == part->want;
}

static bool fill(const struct part *part, struct tokens *tokens, size_t *starts, uint32_t *labels)
{
    const struct rows *rows = part->rows;
    size_t sample = 0;
    for (size_t i = 0; i < rows->count; i++) {
        if (!in_part(part, i))
            continue;
        starts[sample] = tokens->count;
        if (labels != NULL)
            labels[sample] = rows->rows[i].label;
        if (!add_text(tokens, &rows->rows[i]))
            return false;
        sample++;
    }
    starts[sample] = tokens->count;
    return true;
}

/* Gives back what growing took too much; never empty, as NULL means images. */
static uint32_t *exact(struct tokens *tokens)
{
    size_t count = tokens->count > 0 ? tokens->count : 1;
    uint32_t *at = tokens->mem->resize(tokens->mem->ctx, tokens->at, count * sizeof *at);
    return at != NULL ? at : tokens->at;
}

/* Makes the samples of a part; *out keeps its vocabularies and shape. */
static tri_status make_part(const struct part *part, struct tokens *tokens, struct data *out,
                            tri_error *err)
{
    const struct mem *mem = tokens->mem;
    size_t *starts = mem_array(mem, part->count + 1, sizeof *starts);
    uint32_t *labels = NULL;
    bool ok = starts != NULL;
    if (ok && part->rows->labelled) {
        labels = mem_array(mem, part->count, sizeof *labels);
        ok = labels != NULL;
    }
    ok = ok && fill(part, tokens, starts, labels);
    uint32_t *at = ok ? exact(tokens) : NULL;
    if (at == NULL) {
        mem_free(mem, tokens->at);
        mem_free(mem, starts);
        mem_free(mem, labels);
        return fail_nomem(err, "the tokens of a text");
    }
    out->samples = part->count;
    out->tokens = at;
    out->starts = starts;
    out->labels = labels;
    return TRI_OK;
}

/* Rows whose label no other row has. */
static tri_status count_single(const struct rows *rows, size_t *out, tri_error *err)
{
    size_t classes = vocabulary_size(rows->classes);
    size_t *counts = mem_array(rows->source->mem, classes, sizeof *counts);
    if (counts == NULL)
        return fail_nomem(err, "the labels");
    for (size_t i = 0; i < rows->count; i++)
        counts[rows->rows[i].label]++;
    *out = 0;
    for (size_t i = 0; i < classes; i++)
        *out += counts[i] == 1;
    mem_free(rows->source->mem, counts);
    return TRI_OK;
}

/* A column that nobody has named and that is nearly all different is one of texts or numbers. */
static tri_status check_guess(const struct rows *rows, tri_error *err)
{
    enum { SOME = 50 };
    size_t single = 0;
    if (!rows->guessed || rows->count <= SOME)
        return TRI_OK;
    tri_status status = count_single(rows, &single, err);
    if (status != TRI_OK || 2 * single <= rows->count)
        return status;
    fail(err, TRI_EINPUT, "%zu of the %zu rows of '%.120s' have a label of their own", single,
         rows->count, rows->source->path);
    fail_where(err, "%s, column %zu", rows->source->path, rows->label_at + 1);
    fail_why(err, "no header names the columns, so column %zu was taken as the label",
             rows->label_at + 1);
    fail_next(err, "say which columns they are: --label-column N --text-column N");
    return TRI_EINPUT;
}

static tri_status check_classes(const struct rows *rows, tri_error *err)
{
    enum { FEW = 10 };
    size_t classes = vocabulary_size(rows->classes);
    tri_status status = check_guess(rows, err);
    if (status != TRI_OK || (classes > 1 && (classes < rows->count || rows->count < FEW)))
        return status;
    if (classes == 1) {
        fail(err, TRI_EINPUT, "all rows of '%s' have the label '%.60s'", rows->source->path,
             vocabulary_at(rows->classes, 0));
        fail_why(err, "there is nothing to learn with one class");
    } else {
        fail(err, TRI_EINPUT, "each of the %zu rows of '%s' has a label of its own", rows->count,
             rows->source->path);
    }
    fail_where(err, "%s, column %zu", rows->source->path, rows->label_at + 1);
    fail_next(err, "check which column holds the labels (--label-column)");
    return TRI_EINPUT;
}

/* Marks one row in ten, each set of so many equally likely (Knuth's algorithm S). */
static size_t hold(const struct rows *rows, bool *held)
{
    struct rng seeded, rng;
    size_t need = rows->count / HELD_OUT > 0 ? rows->count / HELD_OUT : 1, marked = 0;
    rng_init(&seeded, rows->source->options->seed);
    rng_fork(&seeded, UINT64_MAX, &rng);
    for (size_t i = 0; i < rows->count; i++) {
        held[i] = rng_below(&rng, rows->count - i) < need - marked;
        marked += held[i];
    }
    return marked;
}

static tri_status new_words(const struct mem *mem, struct vocabulary **out, tri_error *err)
{
    static const char *const reserved[WORDS_RESERVED] = {WORDS_PADDING_NAME, WORDS_UNKNOWN_NAME};
    return vocabulary_of(reserved, WORDS_RESERVED, mem, out, err);
}

static tri_status make_train(const struct part *part, struct data *train, tri_error *err)
{
    const struct texts_source *source = part->rows->source;
    uint32_t limit = source->options->max_length;
    struct tokens tokens = {.mem = source->mem,
                            .words = train->words,
                            .learn = true,
                            .limit = limit > 0 ? limit : LENGTH_MAX};
    tri_status status = make_part(part, &tokens, train, err);
    if (status != TRI_OK)
        return status;
    train->text = true;
    train->shape.length = (uint32_t)tokens.longest;
    train->shape.words = (uint32_t)vocabulary_size(train->words);
    train->shape.classes = (uint32_t)vocabulary_size(train->classes);
    if (tokens.longest > 0)
        return TRI_OK;
    fail(err, TRI_EINPUT, "the texts of '%s' have no words", source->path);
    fail_where(err, "%s, column %zu", source->path, part->rows->text_at + 1);
    fail_next(err, "check which column holds the texts (--text-column)");
    return TRI_EINPUT;
}

/* Shape, scaling and vocabularies, no samples. */
static struct data same_kind(const struct data *like)
{
    struct data data = *like;
    data.samples = 0;
    data.images = NULL;
    data.tokens = data.labels = NULL;
    data.starts = NULL;
    return data;
}

static tri_status make_test(const struct part *part, const struct data *like, struct data *test,
                            tri_error *err)
{
    struct data made = same_kind(like);
    struct tokens tokens = {
        .mem = part->rows->source->mem, .words = like->words, .limit = like->shape.length};
    tri_status status = make_part(part, &tokens, &made, err);
    if (status == TRI_OK)
        *test = made;
    return status;
}

static tri_status make_both(const struct rows *rows, struct data_set *set, tri_error *err)
{
    if (rows->count < 2) {
        fail(err, TRI_EINPUT, "'%s' has one row, and some are needed to test with",
             rows->source->path);
        fail_where(err, "%s:1", rows->source->path);
        fail_next(err, "give more rows");
        return TRI_EINPUT;
    }
    bool *held = mem_array(rows->source->mem, rows->count, sizeof *held);
    if (held == NULL)
        return fail_nomem(err, "the choice of test samples");
    size_t count = hold(rows, held);
    struct part part = {.rows = rows, .held = held, .count = rows->count - count};
    tri_status status = make_train(&part, &set->train, err);
    part.want = true;
    part.count = count;
    if (status == TRI_OK)
        status = make_test(&part, &set->train, &set->test, err);
    mem_free(rows->source->mem, held);
    return status;
}

tri_status texts_open(const struct texts_source *source, bool hold_out, struct data_set *set,
                      tri_error *err)
{
    struct data *train = &set->train;
    struct rows rows = {.source = source, .classes = vocabulary_new(source->mem)};
    train->classes = rows.classes;
    if (rows.classes == NULL)
        return fail_nomem(err, "labels");
    tri_status status = new_words(source->mem, &train->words, err);
    if (status != TRI_OK)
        return status;
    status = rows_load(&rows, true, err);
    if (status == TRI_OK)
        status = check_classes(&rows, err);
    const struct part all = {.rows = &rows, .count = rows.count};
    if (status == TRI_OK)
        status = hold_out ? make_both(&rows, set, err) : make_train(&all, train, err);
    rows_fini(&rows);
    return status;
}

tri_status texts_read(const struct texts_source *source, const struct data *like,
                      bool labels_needed, struct data *out, tri_error *err)
{
    struct rows rows = {.source = source, .classes = like->classes, .fixed = true};
    tri_status status = rows_load(&rows, labels_needed, err);
    const struct part all = {.rows = &rows, .count = rows.count};
    if (status == TRI_OK)
        status = make_test(&all, like, out, err);
    rows_fini(&rows);
    return status;
}
