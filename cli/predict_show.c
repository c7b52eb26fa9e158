/* How trident predict shows what it found. */
#include <math.h>
#include <stdio.h>

#include "base/json_out.h"
#include "base/printable.h"
#include "cli/predict.h"
#include "cli/table.h"

enum { TEXT_WIDTH = 60, LABEL_WIDTH = 60, LABEL_BYTES = 256, MOST_CLASSES = 2048, MISTAKES = 3 };

static const char *label_at(const struct predictions *found, uint32_t label)
{
    return vocabulary_at(found->input->data.classes, label);
}

/* A label that may stand in a line of ours: whole, or its beginning and a mark. */
static const char *shown(const struct predictions *found, uint32_t label, char out[LABEL_BYTES])
{
    (void)snprintf(out, LABEL_BYTES, "%s", label_at(found, label));
    printable(out);
    if (printable_columns(out) <= LABEL_WIDTH)
        return out;
    size_t end = 0;
    for (size_t left = LABEL_WIDTH - 3; left > 0; left--)
        do
            end++;
        while (((unsigned char)out[end] & 0xC0) == 0x80);
    (void)snprintf(out + end, LABEL_BYTES - end, "...");
    return out;
}

static float probability(const struct predictions *found, size_t sample, uint32_t label)
{
    return found->probabilities[sample * found->classes + label];
}

static bool has_truth(const struct predictions *found)
{
    return found->input->data.labels != NULL;
}

static double accuracy(const struct predictions *found)
{
    return (double)found->right / (double)found->input->data.samples;
}

/* The likeliest label that stands behind `label` in the order of probability, equals by number. */
static uint32_t next_likely(const struct predictions *found, size_t sample, uint32_t label)
{
    const float *p = found->probabilities + sample * found->classes;
    uint32_t best = found->classes;
    for (uint32_t i = 0; i < found->classes; i++) {
        bool behind = p[i] < p[label] || (p[i] == p[label] && i > label);
        if (behind && (best == found->classes || p[i] > p[best]))
            best = i;
    }
    return best;
}

/* ---- a table ---- */

static void put_row(struct table *table, const struct predictions *found, size_t sample,
                    uint32_t label, bool first)
{
    char name[LABEL_BYTES];
    if (!first)
        table_cell(table, "%s", "");
    else if (found->input->texts != NULL)
        table_cell(table, "%.400s", found->input->texts[sample]);
    else
        table_cell(table, "%zu", sample + 1);
    table_cell(table, "%s", shown(found, label, name));
    table_cell(table, "%.3f", (double)probability(found, sample, label));
    if (!has_truth(found))
        return;
    uint32_t truth = found->input->data.labels[sample];
    bool wrong = first && truth != label;
    table_cell(table, "%s", wrong ? shown(found, truth, name) : "");
}

static void put_sample(struct table *table, const struct predictions *found, size_t sample)
{
    uint32_t label = found->labels[sample];
    put_row(table, found, sample, label, true);
    if (!found->settings->probabilities)
        return;
    while ((label = next_likely(found, sample, label)) < found->classes)
        put_row(table, found, sample, label, false);
}

static void put_table(const struct predictions *found, const struct mem *mem, struct buf *out)
{
    struct table table;
    bool texts = found->input->texts != NULL;
    table_init(&table, mem, has_truth(found) ? "rlrl" : texts ? "llr" : "rlr");
    table_cell(&table, texts ? "text" : "sample");
    table_cell(&table, "label");
    table_cell(&table, "probability");
    if (has_truth(found))
        table_cell(&table, "but is");
    for (size_t i = 0; i < found->input->data.samples; i++)
        put_sample(&table, found, i);
    table_print(&table, TEXT_WIDTH, out);
    table_fini(&table);
}

/* ---- what was mistaken for what ---- */

/* The most frequent one, which is then forgotten; 0: there are none left. */
static size_t take_worst(size_t *mistaken, uint32_t classes, uint32_t *truth, uint32_t *label)
{
    size_t worst = 0;
    for (size_t i = 1; i < (size_t)classes * classes; i++)
        if (mistaken[i] > mistaken[worst])
            worst = i;
    size_t times = mistaken[worst];
    *truth = (uint32_t)(worst / classes);
    *label = (uint32_t)(worst % classes);
    mistaken[worst] = 0;
    return times;
}

static void put_mistakes(const struct predictions *found, const struct mem *mem, struct buf *out)
{
    uint32_t classes = found->classes, truth, label;
    if (classes > MOST_CLASSES)
        return;
    size_t *mistaken = mem_array(mem, (size_t)classes * classes, sizeof *mistaken);
    if (mistaken == NULL) {
        out->refused = true;
        return;
    }
    for (size_t i = 0; i < found->input->data.samples; i++) {
        truth = found->input->data.labels[i];
        mistaken[(size_t)truth * classes + found->labels[i]] += truth != found->labels[i];
    }
    for (size_t i = 0; i < MISTAKES; i++) {
        size_t times = take_worst(mistaken, classes, &truth, &label);
        char is[LABEL_BYTES], taken[LABEL_BYTES];
        if (times > 0)
            buf_format(out, "%s %s taken for %s, %zu time%s\n", i == 0 ? "mistakes:" : "         ",
                       shown(found, truth, is), shown(found, label, taken), times,
                       times == 1 ? "" : "s");
    }
    mem_free(mem, mistaken);
}

void predict_text(const struct predictions *found, const struct mem *mem, struct buf *out)
{
    put_table(found, mem, out);
    if (!has_truth(found))
        return;
    buf_format(out, "\naccuracy: %.4f (%zu of %zu right)\n", accuracy(found), found->right,
               found->input->data.samples);
    put_mistakes(found, mem, out);
}

/* ---- JSON ---- */

/* Six decimals are more than a model knows. */
static double rounded(float value)
{
    return round((double)value * 1e6) / 1e6;
}

static void put_prediction(struct json_out *json, const struct predictions *found, size_t sample)
{
    uint32_t label = found->labels[sample];
    json_out_object(json, NULL);
    json_out_string(json, "label", label_at(found, label));
    json_out_number(json, "probability", rounded(probability(found, sample, label)));
    json_out_string(json, "truth",
                    has_truth(found) ? label_at(found, found->input->data.labels[sample]) : NULL);
    if (found->settings->probabilities) {
        json_out_object(json, "probabilities");
        for (uint32_t i = 0; i < found->classes; i++)
            json_out_number(json, label_at(found, i), rounded(probability(found, sample, i)));
        json_out_close(json);
    }
    json_out_close(json);
}

void predict_json(const struct predictions *found, struct buf *out)
{
    struct json_out json;
    json_out_init(&json, out, 2);
    json_out_object(&json, NULL);
    json_out_string(&json, "model", found->settings->model);
    json_out_count(&json, "samples", found->input->data.samples);
    json_out_number(&json, "accuracy", has_truth(found) ? accuracy(found) : (double)NAN);
    json_out_array(&json, "predictions");
    for (size_t i = 0; i < found->input->data.samples; i++)
        put_prediction(&json, found, i);
    json_out_close(&json);
    json_out_close(&json);
}
