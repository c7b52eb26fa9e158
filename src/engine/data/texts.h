/* Text data sets: from a table's rows to tokens and labels. */
#ifndef TRIDENT_ENGINE_DATA_TEXTS_H
#define TRIDENT_ENGINE_DATA_TEXTS_H

#include "engine/data/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What to read, for the calls of data.h with the same last part in their names. */
struct texts_source {
    const char *path;
    char separator; /* ',' or '\t' */
    const struct data_options *options;
    const struct mem *mem;
};

/* Fills in set->train and, if hold_out, set->test. On failure data_close() frees what is there. */
tri_status texts_open(const struct texts_source *source, bool hold_out, struct data_set *set,
                      tri_error *err);

/* labels_needed: a table without is an error. */
tri_status texts_read(const struct texts_source *source, const struct data *like,
                      bool labels_needed, struct data *out, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
