/* What trident predict classifies: a file, arguments or lines. */
#include <string.h>

#include "cli/predict.h"
#include "engine/data/words.h"
#include "os/file.h"

static const size_t max_stdin_bytes = (size_t)1 << 30;

static tri_status images_wanted(const struct predict_settings *settings, tri_error *err)
{
    fail(err, TRI_EINPUT, "model '%.100s' takes images, and no --data says which", settings->model);
    fail_next(err, "add --data idx:FILE, --data cifar10:FILE or --data fashion-mnist");
    return TRI_EINPUT;
}

/* A file without labels looks as if it had some that the model does not know. */
static void advise(const struct predict_settings *settings, tri_error *err)
{
    if (!settings->unlabelled && strncmp(err->text, "the label '", 11) == 0)
        fail_next(err, "correct it, say which column holds the labels (--label-column), or give "
                       "--unlabelled if none does");
}

static tri_status read_file(const struct cli *cli, const struct predict_settings *settings,
                            const struct arguments *arguments, const struct model *model,
                            struct predict_input *out, tri_error *err)
{
    if (arguments->count > 0) {
        fail(err, TRI_EINPUT, "unexpected argument '%.60s' beside --data", arguments->at[0]);
        fail_next(err, "give texts or --data, not both");
        return TRI_EINPUT;
    }
    const struct data_options options = {.data = settings->data,
                                         .label_column = (uint32_t)settings->label_column,
                                         .text_column = (uint32_t)settings->text_column,
                                         .header = (enum data_header)settings->header,
                                         .unlabelled = settings->unlabelled};
    tri_status status = data_read(&options, &model->data, cli->mem, &out->data, err);
    if (status == TRI_EINPUT && model->data.text)
        advise(settings, err);
    return status;
}

/* ---- texts ---- */

/* Cuts what came on standard input into lines. A NUL byte is a space: it would hide the rest. */
static size_t cut_lines(struct buf *lines)
{
    size_t count = 0;
    for (size_t i = 0; i < lines->len; i++) {
        if (lines->data[i] == '\0')
            lines->data[i] = ' ';
        if (lines->data[i] != '\n')
            continue;
        lines->data[i] = '\0';
        if (i > 0 && lines->data[i - 1] == '\r')
            lines->data[i - 1] = ' ';
        count++;
    }
    return count + (lines->len > 0 && lines->data[lines->len - 1] != '\0');
}

static tri_status take_lines(struct cli *cli, struct predict_input *out, tri_error *err)
{
    tri_status status = file_read("/dev/stdin", max_stdin_bytes, &out->lines, err);
    if (status == TRI_EINPUT)
        fail_next(err, "give texts as arguments, as lines on standard input or with --data");
    if (status != TRI_OK)
        return status;
    size_t count = cut_lines(&out->lines);
    if (count == 0) {
        fail(err, TRI_EINPUT, "standard input is empty");
        fail_next(err, "give texts as arguments, as lines on standard input or with --data");
        return TRI_EINPUT;
    }
    out->texts = mem_array(cli->mem, count, sizeof *out->texts);
    if (out->texts == NULL)
        return fail_nomem(err, "a list of lines");
    const char *line = buf_string(&out->lines);
    for (size_t i = 0; i < count; i++, line += strlen(line) + 1)
        out->texts[i] = line;
    out->data.samples = count;
    return TRI_OK;
}

static tri_status take_arguments(const struct cli *cli, const struct arguments *arguments,
                                 struct predict_input *out, tri_error *err)
{
    out->texts = mem_array(cli->mem, arguments->count, sizeof *out->texts);
    if (out->texts == NULL)
        return fail_nomem(err, "a list of texts");
    for (size_t i = 0; i < arguments->count; i++)
        out->texts[i] = arguments->at[i];
    out->data.samples = arguments->count;
    return TRI_OK;
}

struct tokens {
    const struct mem *mem;
    uint32_t *at;
    size_t count, cap;
};

static bool add_tokens(struct tokens *tokens, const struct data *data, const char *text)
{
    struct words words;
    size_t first = tokens->count;
    words_begin(&words, text, strlen(text));
    while (tokens->count - first < data->shape.length && words_next(&words)) {
        void *at = tokens->at;
        if (mem_grow(tokens->mem, &at, &tokens->cap, tokens->count + 1, sizeof *tokens->at) == NULL)
            return false;
        tokens->at = at;
        uint32_t number = vocabulary_find(data->words, words.word, words.len);
        tokens->at[tokens->count++] = number != VOCABULARY_NONE ? number : WORDS_UNKNOWN;
    }
    return true;
}

/* From texts to what a batch is made of. */
static tri_status tokenize(const struct mem *mem, struct predict_input *out, tri_error *err)
{
    struct data *data = &out->data;
    struct tokens tokens = {.mem = mem};
    size_t *starts = mem_array(mem, data->samples + 1, sizeof *starts);
    void *at = NULL;
    bool ok = starts != NULL && mem_grow(mem, &at, &tokens.cap, 1, sizeof *tokens.at) != NULL;
    tokens.at = at;
    for (size_t i = 0; i < data->samples && ok; i++) {
        ok = add_tokens(&tokens, data, out->texts[i]);
        starts[i + 1] = tokens.count;
    }
    data->starts = starts;
    data->tokens = tokens.at;
    return ok ? TRI_OK : fail_nomem(err, "the tokens of a text");
}

static tri_status read_texts(struct cli *cli, const struct arguments *arguments,
                             const struct model *model, struct predict_input *out, tri_error *err)
{
    out->data = model->data;
    tri_status status =
        arguments->count > 0 ? take_arguments(cli, arguments, out, err) : take_lines(cli, out, err);
    return status == TRI_OK ? tokenize(cli->mem, out, err) : status;
}

tri_status predict_input_open(struct cli *cli, const struct predict_settings *settings,
                              const struct arguments *arguments, const struct model *model,
                              struct predict_input *out, tri_error *err)
{
    tri_status status;
    *out = (struct predict_input){0};
    buf_init(&out->lines, cli->mem);
    if (settings->data != NULL)
        status = read_file(cli, settings, arguments, model, out, err);
    else if (!model->data.text)
        status = images_wanted(settings, err);
    else
        status = read_texts(cli, arguments, model, out, err);
    if (status != TRI_OK)
        predict_input_fini(out, cli->mem);
    return status;
}

void predict_input_fini(struct predict_input *input, const struct mem *mem)
{
    data_fini(&input->data, mem);
    mem_free(mem, input->texts);
    input->texts = NULL;
    buf_fini(&input->lines);
}
