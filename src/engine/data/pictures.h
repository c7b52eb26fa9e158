/* Image data sets: from the files of a folder to scaled samples. */
#ifndef TRIDENT_ENGINE_DATA_PICTURES_H
#define TRIDENT_ENGINE_DATA_PICTURES_H

#include "engine/data/data.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What to read, for the calls of data.h with the same last part in their names. */
struct pictures_source {
    const char *path;         /* a folder; of what is only read also a file */
    bool cifar;               /* else IDX */
    uint32_t classes;         /* of IDX; 0: as many as there are */
    const char *const *names; /* of the classes; NULL: numbers */
    const struct mem *mem;
};

/* Fills in set->train from the folder's training files. On failure data_close() frees what is
 * there. */
tri_status pictures_open(const struct pictures_source *source, struct data_set *set,
                         tri_error *err);

enum pictures_labels { PICTURES_UNLABELLED, PICTURES_MAYBE, PICTURES_LABELLED };

tri_status pictures_read(const struct pictures_source *source, const struct data *like,
                         enum pictures_labels labels, struct data *out, tri_error *err);

#ifdef __cplusplus
}
#endif

#endif
