/* Inside trident predict: what is to be classified, what comes of it, and how it is shown. */
#ifndef TRIDENT_CLI_PREDICT_H
#define TRIDENT_CLI_PREDICT_H

#include "cli/cli.h"
#include "engine/model.h"

#ifdef __cplusplus
extern "C" {
#endif

struct predict_settings {
    const char *model, *data;
    uint64_t batch, label_column, text_column;
    unsigned header; /* enum data_header */
    bool unlabelled, probabilities, json;
};

/* Samples. The vocabularies are the model's. */
struct predict_input {
    struct data data;
    struct buf lines;   /* of standard input, each with a NUL behind it */
    const char **texts; /* one for each sample; NULL: they come from a file of --data */
};

/* TRI_EINPUT for data that the model cannot take. */
tri_status predict_input_open(struct cli *cli, const struct predict_settings *settings,
                              const struct arguments *arguments, const struct model *model,
                              struct predict_input *out, tri_error *err);
void predict_input_fini(struct predict_input *input, const struct mem *mem);

struct predictions {
    const struct predict_settings *settings;
    const struct predict_input *input;
    uint32_t classes;
    uint32_t *labels;     /* of each sample, the likeliest */
    float *probabilities; /* samples x classes */
    size_t right;         /* samples whose label is the one that the data gives */
};

void predict_text(const struct predictions *found, const struct mem *mem, struct buf *out);
void predict_json(const struct predictions *found, struct buf *out);

#ifdef __cplusplus
}
#endif

#endif
