/* Writing a checkpoint: its header, then values straight from where they are. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "base/units.h"
#include "checkpoint/inside.h"
#include "os/file.h"
#include "os/stream.h"
#include "store/floats.h"

/* The format is little-endian, and values are written as they lie in memory. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "checkpoints are saved as they are");

static const char zeros[] = "00000000";

char *checkpoint_sum_at(char *header, size_t len, const char *key)
{
    char text[40];
    int used = snprintf(text, sizeof text, "\"%s\": \"", key);
    char *at = memmem(header, len, text, (size_t)used);
    if (at == NULL || (size_t)(header + len - at) < (size_t)used + CHECKPOINT_SUM)
        return NULL;
    return at + used;
}

void checkpoint_header_sum(const char *header, size_t len, const char *digits,
                           char out[CHECKPOINT_SUM + 1])
{
    size_t before = digits != NULL ? (size_t)(digits - header) : len;
    uint32_t crc = crc32c(0, header, before);
    if (digits != NULL) {
        crc = crc32c(crc, zeros, CHECKPOINT_SUM);
        crc = crc32c(crc, digits + CHECKPOINT_SUM, len - before - CHECKPOINT_SUM);
    }
    (void)snprintf(out, CHECKPOINT_SUM + 1, "%08x", (unsigned)crc);
}

/* ---- what can be written ---- */

static tri_status check_layer(const struct checkpoint *what, const struct checkpoint_layer *layer,
                              tri_error *err)
{
    bool complete = layer->values != NULL && layer->rows > 0 && layer->cols > 0;
    for (uint32_t s = 0; s < what->states; s++)
        complete = complete && layer->state[s] != NULL;
    return complete ? TRI_OK : fail(err, TRI_EARG, "layer '%.100s' has no values", layer->name);
}

static bool is_of_layer(const char *name, const char *layer)
{
    size_t len = strlen(layer);
    return strncmp(name, layer, len) == 0 &&
           (strcmp(name + len, ".weight") == 0 || strcmp(name + len, ".bias") == 0);
}

static tri_status check_kept(const struct checkpoint *what, const struct checkpoint_kept *kept,
                             tri_error *err)
{
    if (kept->values == NULL || kept->count == 0 || (unsigned)kept->type > TRI_U64)
        return fail(err, TRI_EARG, "'%.100s', which is to be kept, has no values", kept->name);
    for (uint32_t i = 0; i < what->layer_count; i++)
        if (is_of_layer(kept->name, what->layers[i].name)) {
            fail(err, TRI_EARG, "'%.100s', which is to be kept, is called as layer '%.60s' is",
                 kept->name, what->layers[i].name);
            fail_next(err, "give another name to tri_keep()");
            return TRI_EARG;
        }
    return TRI_OK;
}

static tri_status check(const struct checkpoint *what, tri_error *err)
{
    tri_status status = TRI_OK;
    if (what->states > CHECKPOINT_STATES)
        return fail(err, TRI_EARG, "a checkpoint cannot have %u states", what->states);
    for (uint32_t i = 0; i < what->layer_count && status == TRI_OK; i++)
        status = check_layer(what, &what->layers[i], err);
    for (uint32_t i = 0; i < what->kept_count && status == TRI_OK; i++)
        status = check_kept(what, &what->kept[i], err);
    return status;
}

/* ---- the header ---- */

/* A list that owns its texts, as one that was read does. */
struct listing {
    struct safetensors *list;
    const struct mem *mem;
    bool refused;
};

__attribute__((format(printf, 2, 3))) static const char *text_of(struct listing *listing,
                                                                 const char *format, ...)
{
    char some[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int len = vsnprintf(some, sizeof some, format, args);
    char *text = len < 0 ? NULL : mem_array(listing->mem, (size_t)len + 1, 1);
    if (text != NULL)
        (void)vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    va_end(args);
    listing->refused |= text == NULL;
    return text;
}

static void add_text(struct listing *listing, const char *key, const char *value)
{
    struct safetensors *list = listing->list;
    list->texts[list->text_count++] = (struct safetensors_text){key, value};
}

static struct safetensors_tensor *add_tensor(struct listing *listing, enum safetensors_dtype dtype,
                                             const char *name, uint64_t count)
{
    struct safetensors *list = listing->list;
    struct safetensors_tensor *tensor = &list->tensors[list->count++];
    *tensor =
        (struct safetensors_tensor){.name = name, .dtype = dtype, .dims = 1, .shape = {count}};
    return tensor;
}

/* before: "", or "optim.0." */
static void add_layer(struct listing *listing, const struct checkpoint_layer *layer,
                      const char *before)
{
    struct safetensors_tensor *weight =
        add_tensor(listing, SAFETENSORS_F32, text_of(listing, "%s%s.weight", before, layer->name),
                   layer->rows);
    weight->dims = 2;
    weight->shape[1] = layer->cols;
    if (layer->bias)
        add_tensor(listing, SAFETENSORS_F32, text_of(listing, "%s%s.bias", before, layer->name),
                   layer->rows);
}

static void add_kept(struct listing *listing, const struct checkpoint *what, tri_type type)
{
    for (uint32_t i = 0; i < what->kept_count; i++)
        if (what->kept[i].type == type)
            add_tensor(listing, type == TRI_U64 ? SAFETENSORS_U64 : SAFETENSORS_F32,
                       text_of(listing, "%s", what->kept[i].name), what->kept[i].count);
}

/* In this order the values lie in the file: 8-byte ones first, so that all are aligned. */
static void add_tensors(struct listing *listing, const struct checkpoint *what)
{
    add_kept(listing, what, TRI_U64);
    for (uint32_t s = 0; s <= what->states; s++) {
        char before[24] = "";
        if (s > 0)
            (void)snprintf(before, sizeof before, "optim.%u.", s - 1);
        for (uint32_t i = 0; i < what->layer_count; i++)
            add_layer(listing, &what->layers[i], before);
    }
    add_kept(listing, what, TRI_F32);
}

enum { PLAIN_TEXTS = 8 };

static void add_texts(struct listing *listing, const struct checkpoint *what)
{
    const struct {
        const char *key, *value;
    } plain[] = {{"format", CHECKPOINT_FORMAT},
                 {"job", what->job != NULL ? what->job : ""},
                 {"optimizer", what->optimizer != NULL ? what->optimizer : ""},
                 {"library", tri_version()},
                 {CHECKPOINT_DATA_SUM, zeros},
                 {CHECKPOINT_HEADER_SUM, zeros}};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        add_text(listing, text_of(listing, "%s", plain[i].key),
                 text_of(listing, "%s", plain[i].value));
    add_text(listing, text_of(listing, "clock"),
             text_of(listing, "%llu", (unsigned long long)what->clock));
    add_text(listing, text_of(listing, "states"), text_of(listing, "%u", what->states));
    for (uint32_t i = 0; i < what->layer_count; i++)
        add_text(listing, text_of(listing, CHECKPOINT_STEPS "%s", what->layers[i].name),
                 text_of(listing, "%llu", (unsigned long long)what->layers[i].steps));
    for (uint32_t i = 0; i < what->kept_count; i++)
        add_text(listing, text_of(listing, CHECKPOINT_KEPT "%s", what->kept[i].name),
                 text_of(listing, what->kept[i].type == TRI_U64 ? "U64" : "F32"));
}

static tri_status put_header(const struct checkpoint *what, const struct mem *mem,
                             struct buf *header, tri_error *err)
{
    struct listing listing = {.list = mem_array(mem, 1, sizeof *listing.list), .mem = mem};
    size_t tensors = (size_t)2 * what->layer_count * (what->states + 1) + what->kept_count;
    tri_status status = TRI_ENOMEM;
    if (listing.list == NULL)
        return fail_nomem(err, "the header of a checkpoint");
    listing.list->tensors = mem_array(mem, tensors, sizeof *listing.list->tensors);
    listing.list->texts = mem_array(mem, (size_t)PLAIN_TEXTS + what->layer_count + what->kept_count,
                                    sizeof *listing.list->texts);
    if (listing.list->tensors != NULL && listing.list->texts != NULL) {
        add_texts(&listing, what);
        add_tensors(&listing, what);
    }
    if (listing.list->tensors == NULL || listing.list->texts == NULL || listing.refused)
        fail_nomem(err, "the header of a checkpoint");
    else
        status = safetensors_write(listing.list, header, err);
    safetensors_free(listing.list, mem);
    return status;
}

/* ---- values, in the order of add_tensors() ---- */

typedef tri_status piece_fn(void *ctx, const void *bytes, size_t len, tri_error *err);

static tri_status each_kept(const struct checkpoint *what, tri_type type, piece_fn *piece,
                            void *ctx, tri_error *err)
{
    tri_status status = TRI_OK;
    size_t size = type == TRI_U64 ? sizeof(uint64_t) : sizeof(float);
    for (uint32_t i = 0; i < what->kept_count && status == TRI_OK; i++)
        if (what->kept[i].type == type)
            status = piece(ctx, what->kept[i].values, (size_t)what->kept[i].count * size, err);
    return status;
}

static tri_status each_piece(const struct checkpoint *what, piece_fn *piece, void *ctx,
                             tri_error *err)
{
    tri_status status = each_kept(what, TRI_U64, piece, ctx, err);
    for (uint32_t s = 0; s <= what->states; s++)
        for (uint32_t i = 0; i < what->layer_count && status == TRI_OK; i++) {
            const struct checkpoint_layer *layer = &what->layers[i];
            size_t floats = (size_t)layer->rows * (layer->cols + (size_t)layer->bias);
            status = piece(ctx, s == 0 ? layer->values : layer->state[s - 1],
                           floats * sizeof(float), err);
        }
    return status == TRI_OK ? each_kept(what, TRI_F32, piece, ctx, err) : status;
}

static tri_status count_piece(void *ctx, const void *bytes, size_t len, tri_error *err)
{
    (void)bytes, (void)err;
    *(uint64_t *)ctx += len;
    return TRI_OK;
}

/* Summed and copied while they are in the cache: so much at a time. */
enum { AT_ONCE = 256 << 10, BUFFER = 1 << 20 };

struct writing {
    struct stream_out out;
    uint32_t crc;
};

static tri_status put_piece(void *ctx, const void *bytes, size_t len, tri_error *err)
{
    struct writing *writing = ctx;
    const char *from = bytes;
    tri_status status = TRI_OK;
    for (size_t n; len > 0 && status == TRI_OK; from += n, len -= n) {
        n = len < AT_ONCE ? len : AT_ONCE;
        writing->crc = crc32c(writing->crc, from, n);
        status = stream_out_put(&writing->out, from, n, err);
    }
    return status;
}

/* Fills in both. */
static void put_sums(struct buf *header, uint32_t crc)
{
    char sum[CHECKPOINT_SUM + 1];
    (void)snprintf(sum, sizeof sum, "%08x", (unsigned)crc);
    char *data_sum = checkpoint_sum_at(header->data, header->len, CHECKPOINT_DATA_SUM);
    char *header_sum = checkpoint_sum_at(header->data, header->len, CHECKPOINT_HEADER_SUM);
    if (data_sum != NULL)
        memcpy(data_sum, sum, CHECKPOINT_SUM);
    checkpoint_header_sum(header->data, header->len, header_sum, sum);
    if (header_sum != NULL)
        memcpy(header_sum, sum, CHECKPOINT_SUM);
}

/* ---- the file ---- */

static tri_status explain(const struct stream_out *out, uint64_t bytes, const tri_error *reason,
                          tri_error *err)
{
    char needed[UNITS_TEXT], free_text[UNITS_TEXT] = "not enough";
    uint64_t room;
    if (!out->full) {
        if (err != NULL)
            *err = *reason;
        fail_next(err,
                  "see that '%.100s' can be written to; the checkpoints before are as they "
                  "were",
                  out->folder);
        return reason->status;
    }
    if (file_room(out->folder, &room))
        units_show_bytes((double)room, free_text);
    fail(err, TRI_EIO, "no room for checkpoint '%.160s'", out->path);
    fail_why(err, "%s: it needs %s, and %s are free in '%.100s'", reason->why,
             units_show_bytes((double)bytes, needed), free_text, out->folder);
    fail_next(err, "make room there, keep fewer checkpoints, or give a folder on another disk; the "
                   "checkpoints before are as they were");
    return TRI_EIO;
}

/* The sums are known when all values have gone by, and then the header is written again. */
static tri_status write_file(struct writing *writing, const struct checkpoint *what,
                             struct buf *header, tri_error *err)
{
    struct stream_out *out = &writing->out;
    tri_status status = stream_out_put(out, header->data, header->len, err);
    if (status == TRI_OK)
        status = each_piece(what, put_piece, writing, err);
    put_sums(header, writing->crc);
    if (status == TRI_OK)
        status = stream_out_begin_with(out, header->data, header->len, err);
    if (status == TRI_OK)
        return stream_out_finish(out, err);
    stream_out_drop(out);
    return status;
}

static tri_status make_file(const char *path, const struct checkpoint *what, struct buf *header,
                            const struct mem *mem, tri_error *err)
{
    struct writing writing = {0};
    tri_error reason = {0};
    uint64_t bytes = header->len;
    (void)each_piece(what, count_piece, &bytes, NULL);
    float *buffer = floats_new(mem, BUFFER / sizeof *buffer);
    if (buffer == NULL)
        return fail_nomem(err, "writing a checkpoint");
    tri_status status = stream_out_open(path, &writing.out, &reason);
    if (status == TRI_OK) {
        stream_out_direct(&writing.out, buffer, BUFFER);
        status = write_file(&writing, what, header, &reason);
    }
    floats_free(mem, buffer);
    return status == TRI_OK ? TRI_OK : explain(&writing.out, bytes, &reason, err);
}

static tri_status write_whole(const char *folder, const char *path, const struct checkpoint *what,
                              const struct mem *mem, tri_error *err)
{
    struct buf header;
    buf_init(&header, mem);
    tri_status status = put_header(what, mem, &header, err);
    if (status == TRI_OK)
        status = file_make_folder(folder, err);
    if (status == TRI_OK)
        status = make_file(path, what, &header, mem, err);
    buf_fini(&header);
    return status;
}

tri_status checkpoint_write(const char *folder, const struct checkpoint *what,
                            const struct mem *mem, struct buf *path, tri_error *err)
{
    struct buf own;
    char name[CHECKPOINT_NAME];
    tri_status status = check(what, err);
    if (status != TRI_OK)
        return status;
    buf_init(&own, mem);
    if (path == NULL)
        path = &own;
    size_t at = path->len;
    checkpoint_name(what->clock, name);
    buf_format(path, "%s/%s", folder, name);
    if (buf_ok(path) && path->data != NULL)
        status = write_whole(folder, path->data + at, what, mem, err);
    else
        status = fail_nomem(err, "a path");
    if (status != TRI_OK && path->data != NULL) {
        path->len = at;
        path->data[at] = '\0';
    }
    buf_fini(&own);
    return status;
}
