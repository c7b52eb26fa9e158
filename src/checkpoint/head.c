/* The header of a checkpoint, which may be damaged in any way: what it promises, held together. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "checkpoint/inside.h"

/* ---- what is wrong ---- */

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static bool is_named_as_one(const char *path)
{
    uint64_t clock;
    return checkpoint_clock_of(name_of(path), &clock);
}

static void advise_older(const char *path, tri_error *err)
{
    size_t len = (size_t)(name_of(path) - path);
    fail_next(err, "use an older one: trident checkpoint verify %.*s tells which are whole",
              len > 0 && len < 150 ? (int)len : 1, len > 0 && len < 150 ? path : ".");
}

tri_status checkpoint_damaged(const char *path, uint64_t offset, tri_error *err)
{
    fail(err, TRI_EINPUT, "checkpoint '%.200s' is damaged", path);
    fail_where(err, "%.200s, byte %llu", path, (unsigned long long)offset);
    advise_older(path, err);
    return TRI_EINPUT;
}

static tri_status no_checkpoint(const char *path, tri_error *err)
{
    fail(err, TRI_EINPUT, "'%.200s' is not a checkpoint", path);
    fail_where(err, "%.200s", path);
    fail_next(err, "give a file that a job has saved, FOLDER/clock-....safetensors, or its folder");
    return TRI_EINPUT;
}

/* What safetensors found, as a report of ours. */
static tri_status explain(const char *path, tri_status status, const tri_error *found,
                          tri_error *err)
{
    if (status != TRI_EINPUT) {
        if (err != NULL)
            *err = *found;
        return status;
    }
    bool stranger = !is_named_as_one(path);
    if (stranger)
        no_checkpoint(path, err);
    else
        checkpoint_damaged(path, 0, err);
    if (found->where[0] == '\0') /* it is not even a file of tensors, as the reason says */
        fail_why(err, "%s", found->why);
    else
        fail_why(err, "%.160s%s%.120s", found->text, found->why[0] != '\0' ? ": " : "", found->why);
    if (found->where[0] != '\0')
        fail_where(err, "%s", found->where);
    return TRI_EINPUT;
}

/* ---- the header ---- */

static tri_status get_header(struct stream_in *in, struct buf *header, tri_error *err)
{
    char block[8192];
    uint64_t left;
    size_t got;
    tri_error found = {0};
    tri_status status = stream_in_get(in, block, SAFETENSORS_LENGTH_BYTES, &got, err);
    if (status != TRI_OK)
        return status;
    const struct safetensors_source source = {in->path, block, got, in->bytes};
    status = safetensors_header_bytes(&source, &left, &found);
    if (status != TRI_OK)
        return explain(in->path, status, &found, err);
    buf_add(header, block, got);
    while (left > 0 && buf_ok(header)) {
        size_t now = left < sizeof block ? (size_t)left : sizeof block;
        status = stream_in_get(in, block, now, &got, err);
        if (status != TRI_OK)
            return status;
        buf_add(header, block, got);
        left -= got;
        if (got < now) {
            checkpoint_damaged(in->path, header->len, err);
            fail_why(err, "it ends at byte %zu, in its header", header->len);
            return TRI_EINPUT;
        }
    }
    return buf_ok(header) ? TRI_OK : fail_nomem(err, "the header of a checkpoint");
}

static tri_status check_format(const struct checkpoint_file *file, const char *path, tri_error *err)
{
    const char *format = safetensors_text(file->list, "format");
    const char *library = safetensors_text(file->list, "library");
    if (format != NULL && strcmp(format, CHECKPOINT_FORMAT) == 0)
        return TRI_OK;
    size_t family = strlen(CHECKPOINT_FAMILY);
    if (format == NULL || strncmp(format, CHECKPOINT_FAMILY, family) != 0) {
        no_checkpoint(path, err);
        fail_why(err, "it is a file of %zu tensors of the format '%.60s'", file->list->count,
                 format != NULL ? format : "(none)");
        if (format != NULL && strcmp(format, "trident-model") == 0)
            fail_next(err, "it is a model: trident predict --model %.150s", path);
        return TRI_EINPUT;
    }
    fail(err, TRI_EINPUT, "checkpoint '%.150s' is of another version, '%.40s'", path, format);
    fail_where(err, "%.200s", path);
    fail_why(err, "it is of the format '%.40s', and this trident reads '%s'", format,
             CHECKPOINT_FORMAT);
    fail_next(err, "use the version of trident that wrote it, %.40s, or a later one",
              library != NULL ? library : "which it does not tell");
    return TRI_EINPUT;
}

static tri_status check_header_sum(struct buf *header, const char *path, tri_error *err)
{
    char sum[CHECKPOINT_SUM + 1];
    const char *digits = checkpoint_sum_at(header->data, header->len, CHECKPOINT_HEADER_SUM);
    checkpoint_header_sum(header->data, header->len, digits, sum);
    if (digits != NULL && memcmp(digits, sum, CHECKPOINT_SUM) == 0)
        return TRI_OK;
    checkpoint_damaged(path, 0, err);
    if (digits != NULL)
        fail_why(err,
                 "its first %zu bytes, the header, have the checksum %s and were written with "
                 "%.8s",
                 header->len, sum, digits);
    else
        fail_why(err, "its header has no checksum, or was written by another program");
    return TRI_EINPUT;
}

/* ---- what the header says ---- */

static const char *behind(const char *text, const char *start)
{
    size_t len = strlen(start);
    return strncmp(text, start, len) == 0 ? text + len : NULL;
}

static tri_status bad_text(const char *path, const char *key, const char *value, tri_error *err)
{
    checkpoint_damaged(path, 0, err);
    fail_why(err,
             value != NULL ? "its metadata says '%.60s' is '%.60s'"
                           : "its metadata does not say '%.60s'",
             key, value);
    return TRI_EINPUT;
}

static tri_status read_count(const struct checkpoint_file *file, const char *path, const char *key,
                             uint64_t most, uint64_t *out, tri_error *err)
{
    const char *value = safetensors_text(file->list, key);
    if (value == NULL || !units_count(value, out) || *out > most)
        return bad_text(path, key, value, err);
    return TRI_OK;
}

static tri_status read_texts(struct checkpoint_file *file, const char *path, tri_error *err)
{
    struct checkpoint *what = &file->what;
    uint64_t states = 0, named;
    what->job = safetensors_text(file->list, "job");
    what->optimizer = safetensors_text(file->list, "optimizer");
    if (what->job == NULL || what->optimizer == NULL)
        return bad_text(path, what->job == NULL ? "job" : "optimizer", NULL, err);
    tri_status status = read_count(file, path, "states", CHECKPOINT_STATES, &states, err);
    if (status == TRI_OK)
        status = read_count(file, path, "clock", UINT64_MAX, &what->clock, err);
    what->states = (uint32_t)states;
    if (status != TRI_OK || !checkpoint_clock_of(name_of(path), &named) || named == what->clock)
        return status;
    char name[CHECKPOINT_NAME];
    checkpoint_name(what->clock, name);
    checkpoint_damaged(path, 0, err);
    fail_why(err, "it is of clock %llu, and its name says otherwise",
             (unsigned long long)what->clock);
    fail_next(err, "give it its own name back, %s", name);
    return TRI_EINPUT;
}

/* Layers and kept values, without their values. */
static tri_status read_names(struct checkpoint_file *file, const char *path, const struct mem *mem,
                             tri_error *err)
{
    struct checkpoint *what = &file->what;
    const struct safetensors *list = file->list;
    what->layers = mem_array(mem, list->text_count, sizeof *what->layers);
    what->kept = mem_array(mem, list->text_count, sizeof *what->kept);
    if (what->layers == NULL || what->kept == NULL)
        return fail_nomem(err, "the layers of a checkpoint");
    for (size_t i = 0; i < list->text_count; i++) {
        const char *key = list->texts[i].key, *value = list->texts[i].value;
        const char *layer = behind(key, CHECKPOINT_STEPS), *kept = behind(key, CHECKPOINT_KEPT);
        bool wide = strcmp(value, "U64") == 0;
        if (layer != NULL) {
            struct checkpoint_layer *next = &what->layers[what->layer_count++];
            next->name = layer;
            if (!units_count(value, &next->steps))
                return bad_text(path, key, value, err);
        } else if (kept != NULL) {
            what->kept[what->kept_count++] =
                (struct checkpoint_kept){.name = kept, .type = wide ? TRI_U64 : TRI_F32};
            if (!wide && strcmp(value, "F32") != 0)
                return bad_text(path, key, value, err);
        }
    }
    return TRI_OK;
}

/* Goes through the tensors, each of which must be the one that is due. */
struct walk {
    struct checkpoint_file *file;
    const char *path;
    size_t next;
};

/* A name in parts: "optim.0.", "fc", ".weight". */
struct full_name {
    const char *before, *name, *after;
};

static bool is_called(const char *text, const struct full_name *name)
{
    const char *rest = behind(text, name->before);
    rest = rest != NULL ? behind(rest, name->name) : NULL;
    return rest != NULL && strcmp(rest, name->after) == 0;
}

static const struct safetensors_tensor *peek(const struct walk *walk)
{
    const struct safetensors *list = walk->file->list;
    return walk->next < list->count ? &list->tensors[walk->next] : NULL;
}

static tri_status not_due(const struct walk *walk, const struct full_name *name, const char *shape,
                          tri_error *err)
{
    const struct safetensors_tensor *found = peek(walk);
    const struct safetensors *list = walk->file->list;
    uint64_t at = list->head_bytes + (found != NULL ? found->offset : list->data_bytes);
    checkpoint_damaged(walk->path, at, err);
    fail_why(err, "at byte %llu a tensor '%s%.60s%s' %s is due, and there is '%.60s'%s",
             (unsigned long long)at, name->before, name->name, name->after, shape,
             found != NULL ? found->name : "none",
             found != NULL && is_called(found->name, name) ? " of another shape or type" : "");
    return TRI_EINPUT;
}

static tri_status take_values(struct walk *walk, const struct full_name *name,
                              enum safetensors_dtype dtype, uint64_t *count, void **at,
                              tri_error *err)
{
    const struct safetensors_tensor *found = peek(walk);
    if (found == NULL || !is_called(found->name, name) || found->dtype != dtype ||
        found->dims != 1 || found->shape[0] == 0 || (*count != 0 && found->shape[0] != *count))
        return not_due(walk, name, dtype == SAFETENSORS_U64 ? "of U64" : "of F32", err);
    *count = found->shape[0];
    if (at != NULL && walk->file->data != NULL)
        *at = walk->file->data + found->offset;
    walk->next++;
    return TRI_OK;
}

static tri_status take_weight(struct walk *walk, const struct full_name *name,
                              struct checkpoint_layer *layer, float **at, tri_error *err)
{
    const struct safetensors_tensor *found = peek(walk);
    bool fits = found != NULL && is_called(found->name, name) && found->dtype == SAFETENSORS_F32 &&
                found->dims == 2 && found->shape[0] - 1 < UINT32_MAX &&
                found->shape[1] - 1 < UINT32_MAX;
    if (fits && layer->rows != 0)
        fits = found->shape[0] == layer->rows && found->shape[1] == layer->cols;
    if (!fits)
        return not_due(walk, name, "of F32, rows x cols", err);
    layer->rows = (uint32_t)found->shape[0];
    layer->cols = (uint32_t)found->shape[1];
    if (walk->file->data != NULL) /* what lies there is F32 or U64 only: it is aligned */
        *at = (float *)(void *)(walk->file->data + found->offset);
    walk->next++;
    return TRI_OK;
}

/* state: 0 the parameters, then the optimiser's. The bias follows its weights. */
static tri_status take_layer(struct walk *walk, struct checkpoint_layer *layer, uint32_t state,
                             tri_error *err)
{
    char before[24] = "";
    if (state > 0)
        (void)snprintf(before, sizeof before, "optim.%u.", state - 1);
    const struct full_name weight = {before, layer->name, ".weight"};
    const struct full_name bias = {before, layer->name, ".bias"};
    float **at = state == 0 ? &layer->values : &layer->state[state - 1];
    tri_status status = take_weight(walk, &weight, layer, at, err);
    if (status != TRI_OK)
        return status;
    if (state == 0)
        layer->bias = peek(walk) != NULL && is_called(peek(walk)->name, &bias);
    uint64_t rows = layer->rows;
    return layer->bias ? take_values(walk, &bias, SAFETENSORS_F32, &rows, NULL, err) : TRI_OK;
}

static tri_status take_kept(struct walk *walk, tri_type type, tri_error *err)
{
    struct checkpoint *what = &walk->file->what;
    tri_status status = TRI_OK;
    for (uint32_t i = 0; i < what->kept_count && status == TRI_OK; i++) {
        struct checkpoint_kept *kept = &what->kept[i];
        const struct full_name name = {"", kept->name, ""};
        if (kept->type == type) {
            kept->count = 0;
            status = take_values(walk, &name, type == TRI_U64 ? SAFETENSORS_U64 : SAFETENSORS_F32,
                                 &kept->count, &kept->values, err);
        }
    }
    return status;
}

tri_status checkpoint_place(struct checkpoint_file *file, const char *path, tri_error *err)
{
    struct walk walk = {.file = file, .path = path};
    struct checkpoint *what = &file->what;
    tri_status status = take_kept(&walk, TRI_U64, err);
    for (uint32_t s = 0; s <= what->states; s++)
        for (uint32_t i = 0; i < what->layer_count && status == TRI_OK; i++)
            status = take_layer(&walk, &what->layers[i], s, err);
    if (status == TRI_OK)
        status = take_kept(&walk, TRI_F32, err);
    if (status != TRI_OK || peek(&walk) == NULL)
        return status;
    checkpoint_damaged(path, file->list->head_bytes + peek(&walk)->offset, err);
    fail_why(err, "tensor '%.100s' belongs to no layer", peek(&walk)->name);
    return TRI_EINPUT;
}

tri_status checkpoint_read_head(struct stream_in *in, const struct mem *mem,
                                struct checkpoint_file *file, tri_error *err)
{
    struct buf header;
    tri_error found = {0};
    buf_init(&header, mem);
    tri_status status = get_header(in, &header, err);
    if (status == TRI_OK) {
        const struct safetensors_source source = {in->path, header.data, header.len, in->bytes};
        status = safetensors_read(&source, mem, &file->list, &found);
        if (status != TRI_OK)
            explain(in->path, status, &found, err);
    }
    if (status == TRI_OK)
        status = check_format(file, in->path, err);
    if (status == TRI_OK)
        status = check_header_sum(&header, in->path, err);
    buf_fini(&header);
    if (status == TRI_OK)
        status = read_texts(file, in->path, err);
    if (status == TRI_OK)
        status = read_names(file, in->path, mem, err);
    return status == TRI_OK ? checkpoint_place(file, in->path, err) : status;
}
