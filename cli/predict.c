/* trident predict: a trained model put to use. */
#include "cli/predict.h"

#include <string.h>

enum { MAX_BATCH = 65536 };

static uint32_t likeliest(const float *probabilities, uint32_t classes)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < classes; i++)
        if (probabilities[i] > probabilities[best])
            best = i;
    return best;
}

/* Samples first .. first + count - 1, at most a batch. */
static void run_batch(struct predictions *found, struct model *model, uint64_t *numbers,
                      size_t first, uint32_t count)
{
    const struct data *data = &found->input->data;
    const struct net_batch batch = net_batch(model->net);
    const struct net_calls calls = {0};
    for (uint32_t i = 0; i < count; i++)
        numbers[i] = first + i;
    data_batch(data, numbers, count, &batch);
    (void)net_forward(model->net, false, 0, &calls);
    const float *from = net_probabilities(model->net);
    float *to = found->probabilities + first * found->classes;
    memcpy(to, from, (size_t)count * found->classes * sizeof *to);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t label = likeliest(to + (size_t)i * found->classes, found->classes);
        found->labels[first + i] = label;
        found->right += data->labels != NULL && data->labels[first + i] == label;
    }
}

static void run_all(struct predictions *found, struct model *model, uint64_t *numbers)
{
    uint32_t batch = net_batch_size(model->net);
    size_t samples = found->input->data.samples;
    for (size_t first = 0; first < samples; first += batch) {
        size_t left = samples - first;
        run_batch(found, model, numbers, first, left < batch ? (uint32_t)left : batch);
    }
}

static tri_status predict(struct cli *cli, const struct predict_settings *settings,
                          struct model *model, const struct predict_input *input, struct buf *out,
                          tri_error *err)
{
    struct predictions found = {
        .settings = settings, .input = input, .classes = model->data.shape.classes};
    size_t samples = input->data.samples;
    uint64_t *numbers = mem_array(cli->mem, net_batch_size(model->net), sizeof *numbers);
    found.labels = mem_array(cli->mem, samples, sizeof *found.labels);
    found.probabilities =
        mem_array(cli->mem, samples, (size_t)found.classes * sizeof *found.probabilities);
    bool ok = numbers != NULL && found.labels != NULL && found.probabilities != NULL;
    if (ok)
        run_all(&found, model, numbers);
    if (ok && settings->json)
        predict_json(&found, out);
    else if (ok)
        predict_text(&found, cli->mem, out);
    mem_free(cli->mem, numbers);
    mem_free(cli->mem, found.labels);
    mem_free(cli->mem, found.probabilities);
    return ok ? TRI_OK : fail_nomem(err, "the predictions");
}

static tri_status predict_run(struct cli *cli, const void *settings_,
                              const struct arguments *arguments, struct buf *out, tri_error *err)
{
    const struct predict_settings *settings = settings_;
    struct model *model = NULL;
    struct predict_input input;
    tri_status status =
        model_load(settings->model, (uint32_t)settings->batch, cli->mem, &model, err);
    if (status != TRI_OK)
        return status;
    status = predict_input_open(cli, settings, arguments, model, &input, err);
    if (status == TRI_OK) {
        status = predict(cli, settings, model, &input, out, err);
        predict_input_fini(&input, cli->mem);
    }
    model_close(model);
    return status;
}

/* ---- the command ---- */

#define FIELD(name) .offset = offsetof(struct predict_settings, name)

static const char *const headers[] = {
    [DATA_HEADER_AUTO] = "auto", [DATA_HEADER_YES] = "yes", [DATA_HEADER_NO] = "no", NULL};

static const struct option_row predict_options[] = {
    {.name = "model",
     .value = "FILE.safetensors",
     .required = true,
     .type = OPTION_TEXT,
     FIELD(model),
     .help = "a model that trident train --out has written"},
    {.name = "data",
     .value = "SPEC",
     .otherwise = "texts",
     .type = OPTION_TEXT,
     FIELD(data),
     .help = "csv:FILE, tsv:FILE, idx:FILE, cifar10:FILE, mnist:DIR or fashion-mnist; of a folder "
             "its test files"},
    {.name = "label-column",
     .value = "N",
     .otherwise = "by the header, else 1",
     .type = OPTION_COUNT,
     .min = 1,
     .max = 10000,
     FIELD(label_column),
     .help = "column of a table with the labels, from 1"},
    {.name = "text-column",
     .value = "N",
     .otherwise = "by the header, else 2",
     .type = OPTION_COUNT,
     .min = 1,
     .max = 10000,
     FIELD(text_column),
     .help = "column of a table with the texts, from 1"},
    {.name = "header",
     .value = "auto|yes|no",
     .fallback = "auto",
     .type = OPTION_CHOICE,
     FIELD(header),
     .choices = headers,
     .help = "whether the first row of a table names the columns; auto: if it has usual names"},
    {.name = "unlabelled",
     .type = OPTION_FLAG,
     FIELD(unlabelled),
     .help = "do not look for labels in the data"},
    {.name = "batch",
     .value = "K",
     .fallback = "64",
     .type = OPTION_COUNT,
     .min = 1,
     .max = MAX_BATCH,
     FIELD(batch),
     .help = "samples that are computed at a time"},
    {.name = "probabilities",
     .type = OPTION_FLAG,
     FIELD(probabilities),
     .help = "those of all labels, not only of the likeliest"},
    {.name = "json",
     .help = "one JSON document instead of a table",
     .type = OPTION_FLAG,
     FIELD(json)},
    {.name = NULL},
};

extern const struct command command_predict;
const struct command command_predict = {
    .name = "predict",
    .summary = "use a trained model on texts or on a file of data",
    .arguments = "[TEXT...]",
    .max_arguments = ARGUMENTS_MAX,
    .options = predict_options,
    .settings_bytes = sizeof(struct predict_settings),
    .run = predict_run,
    .about =
        "Prints for each sample the likeliest label and its probability and, if the data has "
        "labels, how many were right, and which were mistaken for which most often.\n\n"
        "A model of texts takes up to 64 texts as arguments, any number as lines of standard "
        "input, or --data. A model of images takes --data. Beside FILE.safetensors, which holds "
        "the "
        "model's values, stands FILE.json with its net, labels and words: both are needed. Words "
        "that were not in the training data all count as the same unknown word; a text is cut "
        "after as many words as the longest one had that the model was trained on.",
    .examples = "trident predict --model trec.safetensors \"how far is it to the moon ?\"\n"
                "trident predict --model trec.safetensors < questions.txt\n"
                "trident predict --model clothes.safetensors --data fashion-mnist --json",
};
