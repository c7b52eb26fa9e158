/* Writing and reading the heads of safetensors files. */
#include "wire/safetensors.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_out.h"
#include "base/utf8.h"
#include "wire/bytes.h"

static const char reserved[] = "__metadata__";

static const struct {
    const char *name;
    uint32_t bytes;
} dtypes[] = {
    [SAFETENSORS_F32] = {"F32", 4}, [SAFETENSORS_F64] = {"F64", 8}, [SAFETENSORS_I64] = {"I64", 8},
    [SAFETENSORS_U64] = {"U64", 8}, [SAFETENSORS_I32] = {"I32", 4}, [SAFETENSORS_U8] = {"U8", 1},
};

const char *safetensors_dtype_name(enum safetensors_dtype dtype)
{
    return dtype < SAFETENSORS_OTHER ? dtypes[dtype].name : "other";
}

static enum safetensors_dtype dtype_of(const char *name)
{
    unsigned dtype = 0;
    while (dtype < SAFETENSORS_OTHER && strcmp(dtypes[dtype].name, name) != 0)
        dtype++;
    return (enum safetensors_dtype)dtype;
}

bool safetensors_bytes(const struct safetensors_tensor *tensor, uint64_t *bytes)
{
    *bytes = 0;
    if (tensor->dtype >= SAFETENSORS_OTHER || tensor->dims > SAFETENSORS_DIMS)
        return false;
    uint64_t product = dtypes[tensor->dtype].bytes;
    for (uint32_t d = 0; d < tensor->dims; d++) {
        uint64_t side = tensor->shape[d];
        if (side > 0 && product > (UINT64_MAX >> 1) / side)
            return false;
        product *= side;
    }
    *bytes = product;
    return true;
}

/* ---- writing ---- */

static bool is_utf8(const char *text)
{
    for (size_t left = strlen(text), len; left > 0; text += len, left -= len)
        if ((len = utf8_length(text, left)) == 0)
            return false;
    return true;
}

static tri_status check_name(const struct safetensors *what, size_t i, tri_error *err)
{
    const char *name = what->tensors[i].name;
    if (name[0] == '\0' || strcmp(name, reserved) == 0 || !is_utf8(name))
        return fail(err, TRI_EARG, "a tensor cannot be called '%.100s'", name);
    for (size_t j = 0; j < i; j++)
        if (strcmp(what->tensors[j].name, name) == 0)
            return fail(err, TRI_EARG, "two tensors are called '%.100s'", name);
    return TRI_OK;
}

static void put_tensor(struct json_out *json, const struct safetensors_tensor *tensor,
                       uint64_t offset, uint64_t bytes)
{
    json_out_object(json, tensor->name);
    json_out_string(json, "dtype", dtypes[tensor->dtype].name);
    json_out_array(json, "shape");
    for (uint32_t d = 0; d < tensor->dims; d++)
        json_out_count(json, NULL, tensor->shape[d]);
    json_out_close(json);
    json_out_array(json, "data_offsets");
    json_out_count(json, NULL, offset);
    json_out_count(json, NULL, offset + bytes);
    json_out_close(json);
    json_out_close(json);
}

static void put_texts(struct json_out *json, const struct safetensors *what)
{
    if (what->text_count == 0)
        return;
    json_out_object(json, reserved);
    for (size_t i = 0; i < what->text_count; i++)
        json_out_string(json, what->texts[i].key, what->texts[i].value);
    json_out_close(json);
}

static tri_status put_header(const struct safetensors *what, struct buf *out, tri_error *err)
{
    struct json_out json;
    uint64_t offset = 0;
    json_out_init(&json, out, 0);
    json_out_object(&json, NULL);
    put_texts(&json, what);
    for (size_t i = 0; i < what->count; i++) {
        uint64_t bytes;
        tri_status status = check_name(what, i, err);
        if (status != TRI_OK)
            return status;
        if (!safetensors_bytes(&what->tensors[i], &bytes) || bytes > (UINT64_MAX >> 1) - offset)
            return fail(err, TRI_EARG, "tensor '%.100s' has no possible size",
                        what->tensors[i].name);
        put_tensor(&json, &what->tensors[i], offset, bytes);
        offset += bytes;
    }
    json_out_close(&json);
    return TRI_OK;
}

tri_status safetensors_write(const struct safetensors *what, struct buf *out, tri_error *err)
{
    size_t at = out->len;
    buf_fill(out, '\0', SAFETENSORS_LENGTH_BYTES);
    tri_status status = put_header(what, out, err);
    if (status != TRI_OK)
        return status;
    buf_fill(out, ' ', (8 - (out->len - at) % 8) % 8);
    if (!buf_ok(out) || out->data == NULL)
        return fail_nomem(err, "the header of a file of tensors");
    uint64_t len = out->len - at - SAFETENSORS_LENGTH_BYTES;
    if (len > SAFETENSORS_MAX_HEADER)
        return fail(err, TRI_EARG, "the names and shapes of these tensors are too long");
    char *newline = memchr(out->data + at + SAFETENSORS_LENGTH_BYTES, '\n', (size_t)len);
    if (newline != NULL) /* behind the document; padding is spaces only */
        *newline = ' ';
    wire_store_u64((uint8_t *)out->data + at, len);
    return TRI_OK;
}

/* ---- reading ---- */

static tri_status no_file(const struct safetensors_source *source, const char *why, tri_error *err)
{
    fail(err, TRI_EINPUT, "'%.150s' is not a file of tensors", source->path);
    fail_why(err, "%s", why);
    fail_next(err, "give a file in the safetensors format, as trident train --out writes it");
    return TRI_EINPUT;
}

tri_status safetensors_header_bytes(const struct safetensors_source *source, uint64_t *bytes,
                                    tri_error *err)
{
    if (source->len < SAFETENSORS_LENGTH_BYTES)
        return no_file(source, "it is shorter than the 8 bytes that such a file begins with", err);
    uint64_t len = wire_load_u64(source->bytes);
    if (len > SAFETENSORS_MAX_HEADER)
        return no_file(source, "its first 8 bytes promise a header of more than 100 MB", err);
    if (source->file_bytes < SAFETENSORS_LENGTH_BYTES + len)
        return no_file(source, "it ends before its header does", err);
    *bytes = len;
    return TRI_OK;
}

struct reader {
    const struct mem *mem;
    const char *path;
    struct json json;
    struct buf name, text;
    struct safetensors *what;
    size_t tensor_cap, text_cap;
    bool has_texts;
    bool nomem;
};

static char *copy(struct reader *reader, const struct buf *text)
{
    char *copied = buf_ok(text) ? mem_text(reader->mem, buf_string(text), text->len) : NULL;
    reader->nomem |= copied == NULL;
    return copied;
}

/* json.key is cut; this is the whole of it. */
static void whole_key(struct reader *reader)
{
    struct json again;
    json_open(&again, reader->path, reader->json.text + reader->json.key_at,
              reader->json.len - reader->json.key_at, NULL);
    json_string(&again, &reader->name);
}

static void read_text(struct reader *reader)
{
    struct safetensors *what = reader->what;
    void *texts = what->texts;
    whole_key(reader);
    json_string(&reader->json, &reader->text);
    if (reader->json.status != TRI_OK)
        return;
    if (mem_grow(reader->mem, &texts, &reader->text_cap, what->text_count + 1,
                 sizeof *what->texts) == NULL) {
        reader->nomem = true;
        return;
    }
    what->texts = texts;
    struct safetensors_text *text = &what->texts[what->text_count++];
    text->key = copy(reader, &reader->name);
    text->value = copy(reader, &reader->text);
}

static void read_texts(struct reader *reader)
{
    if (reader->has_texts)
        json_refuse(&reader->json, reader->json.key_at, "'%s' is there twice", reserved);
    reader->has_texts = true;
    json_object(&reader->json);
    while (!reader->nomem && json_member(&reader->json))
        read_text(reader);
}

enum { HAS_DTYPE = 1, HAS_SHAPE = 2, HAS_OFFSETS = 4, HAS_ALL = 7 };

static void read_shape(struct reader *reader, struct safetensors_tensor *tensor)
{
    struct json *json = &reader->json;
    json_array(json);
    while (json_element(json)) {
        uint64_t side = json_count(json, 0, UINT64_MAX >> 1);
        if (tensor->dims == SAFETENSORS_DIMS)
            json_refuse(json, json->value, "tensor '%.100s' has more than %d dimensions",
                        tensor->name, SAFETENSORS_DIMS);
        else
            tensor->shape[tensor->dims++] = side;
    }
}

static void read_offsets(struct reader *reader, struct safetensors_tensor *tensor)
{
    struct json *json = &reader->json;
    uint64_t ends[2] = {0, 0};
    size_t count = 0, at = json->key_at;
    json_array(json);
    while (json_element(json)) {
        uint64_t end = json_count(json, 0, UINT64_MAX >> 1);
        if (count < 2)
            ends[count] = end;
        count++;
    }
    if (count != 2 || ends[0] > ends[1]) {
        json_refuse(json, at, "'data_offsets' of tensor '%.100s' are not a beginning and an end",
                    tensor->name);
        return;
    }
    tensor->offset = ends[0];
    tensor->bytes = ends[1] - ends[0];
}

/* One key of a tensor; returns its HAS_ flag. */
static unsigned read_key(struct reader *reader, struct safetensors_tensor *tensor)
{
    struct json *json = &reader->json;
    if (strcmp(json->key, "dtype") == 0) {
        if (tensor->dtype_name != NULL)
            return HAS_DTYPE;
        json_string(json, &reader->text);
        tensor->dtype = dtype_of(buf_string(&reader->text));
        tensor->dtype_name = copy(reader, &reader->text);
        return HAS_DTYPE;
    }
    if (strcmp(json->key, "shape") == 0) {
        tensor->dims = 0;
        read_shape(reader, tensor);
        return HAS_SHAPE;
    }
    if (strcmp(json->key, "data_offsets") == 0) {
        read_offsets(reader, tensor);
        return HAS_OFFSETS;
    }
    json_skip(json);
    return 0;
}

static void read_keys(struct reader *reader, struct safetensors_tensor *tensor)
{
    struct json *json = &reader->json;
    unsigned has = 0;
    json_object(json);
    size_t at = json->value;
    while (!reader->nomem && json_member(json)) {
        size_t key_at = json->key_at;
        unsigned key = read_key(reader, tensor);
        if ((has & key) != 0)
            json_refuse(json, key_at, "tensor '%.100s' has a key twice", tensor->name);
        has |= key;
    }
    if (!reader->nomem && has != HAS_ALL)
        json_refuse(json, at, "tensor '%.100s' has no %s", tensor->name,
                    (has & HAS_DTYPE) == 0   ? "dtype"
                    : (has & HAS_SHAPE) == 0 ? "shape"
                                             : "data_offsets");
}

static void read_tensor(struct reader *reader)
{
    struct safetensors *what = reader->what;
    void *tensors = what->tensors;
    if (mem_grow(reader->mem, &tensors, &reader->tensor_cap, what->count + 1,
                 sizeof *what->tensors) == NULL) {
        reader->nomem = true;
        return;
    }
    what->tensors = tensors;
    struct safetensors_tensor *tensor = &what->tensors[what->count++];
    *tensor = (struct safetensors_tensor){.dtype = SAFETENSORS_OTHER};
    tensor->name = copy(reader, &reader->name);
    if (tensor->name != NULL && tensor->name[0] == '\0')
        json_refuse(&reader->json, reader->json.key_at, "a tensor has no name");
    if (tensor->name != NULL)
        read_keys(reader, tensor);
}

static void read_header(struct reader *reader)
{
    struct json *json = &reader->json;
    json_object(json);
    while (!reader->nomem && json_member(json)) {
        whole_key(reader);
        if (!buf_ok(&reader->name))
            reader->nomem = true;
        else if (strcmp(buf_string(&reader->name), reserved) == 0)
            read_texts(reader);
        else
            read_tensor(reader);
    }
    if (!reader->nomem)
        json_end(json);
}

/* ---- what the whole must hold ---- */

static int by_offset(const void *a, const void *b)
{
    const struct safetensors_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static tri_status refuse(const char *path, tri_error *err)
{
    fail_where(err, "%s", path);
    fail_next(err, "write the file again; this one is damaged or from a faulty program");
    return TRI_EINPUT;
}

static tri_status check_places(const struct safetensors *what, const char *path, tri_error *err)
{
    uint64_t end = 0;
    for (size_t i = 0; i < what->count; i++) {
        const struct safetensors_tensor *tensor = &what->tensors[i];
        const char *wrong = tensor->offset < end   ? "overlaps the one before it"
                            : tensor->offset > end ? "has a gap before its data"
                                                   : NULL;
        if (tensor->bytes > what->data_bytes || tensor->offset > what->data_bytes - tensor->bytes)
            wrong = "ends behind the end of the file";
        if (wrong != NULL) {
            fail(err, TRI_EINPUT, "tensor '%.100s' %s", tensor->name, wrong);
            unsigned long long begin = tensor->offset, behind = begin + tensor->bytes;
            fail_why(err, "its data is bytes %llu to %llu of %llu", begin, behind,
                     (unsigned long long)what->data_bytes);
            return refuse(path, err);
        }
        end = tensor->offset + tensor->bytes;
    }
    if (end == what->data_bytes)
        return TRI_OK;
    fail(err, TRI_EINPUT, "%llu bytes at the end belong to no tensor",
         (unsigned long long)(what->data_bytes - end));
    return refuse(path, err);
}

static tri_status check_sizes(const struct safetensors *what, const char *path, tri_error *err)
{
    for (size_t i = 0; i < what->count; i++) {
        const struct safetensors_tensor *tensor = &what->tensors[i];
        uint64_t bytes;
        if (tensor->dtype == SAFETENSORS_OTHER)
            continue;
        bool possible = safetensors_bytes(tensor, &bytes);
        if (possible && bytes == tensor->bytes)
            continue;
        fail(err, TRI_EINPUT, "tensor '%.100s' has %llu bytes, which its shape does not",
             tensor->name, (unsigned long long)tensor->bytes);
        if (possible)
            fail_why(err, "by its shape and dtype '%s' it has %llu", tensor->dtype_name,
                     (unsigned long long)bytes);
        return refuse(path, err);
    }
    return TRI_OK;
}

/* A name that is there twice, or NULL. Sorts them. */
static const char *find_twice(const char **names, size_t count)
{
    qsort(names, count, sizeof *names, by_name);
    for (size_t i = 1; i < count; i++)
        if (strcmp(names[i - 1], names[i]) == 0)
            return names[i];
    return NULL;
}

static tri_status check_names(const struct safetensors *what, const char *path,
                              const struct mem *mem, tri_error *err)
{
    size_t most = what->count > what->text_count ? what->count : what->text_count;
    const char **names = mem_array(mem, most, sizeof *names);
    if (names == NULL)
        return fail_nomem(err, "a list of tensors");
    for (size_t i = 0; i < what->count; i++)
        names[i] = what->tensors[i].name;
    const char *tensor = find_twice(names, what->count);
    for (size_t i = 0; i < what->text_count; i++)
        names[i] = what->texts[i].key;
    const char *key = find_twice(names, what->text_count);
    mem_free(mem, names);
    if (tensor == NULL && key == NULL)
        return TRI_OK;
    if (tensor != NULL)
        fail(err, TRI_EINPUT, "tensor '%.100s' is there twice", tensor);
    else
        fail(err, TRI_EINPUT, "'%.100s' of '%s' is there twice", key, reserved);
    return refuse(path, err);
}

static tri_status check(struct safetensors *what, const char *path, const struct mem *mem,
                        tri_error *err)
{
    if (what->count > 0)
        qsort(what->tensors, what->count, sizeof *what->tensors, by_offset);
    tri_status status = check_names(what, path, mem, err);
    if (status == TRI_OK)
        status = check_places(what, path, err);
    return status == TRI_OK ? check_sizes(what, path, err) : status;
}

static tri_status read_all(struct reader *reader, const struct safetensors_source *source,
                           tri_error *err)
{
    uint64_t header;
    tri_status status = safetensors_header_bytes(source, &header, err);
    if (status != TRI_OK)
        return status;
    if (source->len < SAFETENSORS_LENGTH_BYTES + header)
        return fail(err, TRI_EARG, "'%.150s': the header is not all there", source->path);
    reader->what->head_bytes = SAFETENSORS_LENGTH_BYTES + header;
    reader->what->data_bytes = source->file_bytes - reader->what->head_bytes;
    json_open(&reader->json, source->path, (const char *)source->bytes + SAFETENSORS_LENGTH_BYTES,
              (size_t)header, err);
    read_header(reader);
    if (reader->nomem)
        return fail_nomem(err, "a list of tensors");
    if (reader->json.status != TRI_OK)
        json_advise(&reader->json, "give a file in the safetensors format; the place is counted "
                                   "from the 9th byte on");
    if (reader->json.status != TRI_OK)
        return reader->json.status;
    return check(reader->what, source->path, reader->mem, err);
}

tri_status safetensors_read(const struct safetensors_source *source, const struct mem *mem,
                            struct safetensors **out, tri_error *err)
{
    struct reader reader = {.mem = mem, .path = source->path};
    reader.what = mem_array(mem, 1, sizeof *reader.what);
    if (reader.what == NULL)
        return fail_nomem(err, "a list of tensors");
    buf_init(&reader.name, mem);
    buf_init(&reader.text, mem);
    tri_status status = read_all(&reader, source, err);
    buf_fini(&reader.name);
    buf_fini(&reader.text);
    if (status == TRI_OK)
        *out = reader.what;
    else
        safetensors_free(reader.what, mem);
    return status;
}

/* What a list of a file holds is its own, and const only for its readers. */
static void free_text(const struct mem *mem, const char *text)
{
    mem_free(mem, (void *)(uintptr_t)text);
}

void safetensors_free(struct safetensors *what, const struct mem *mem)
{
    if (what == NULL)
        return;
    for (size_t i = 0; i < what->count; i++) {
        free_text(mem, what->tensors[i].name);
        free_text(mem, what->tensors[i].dtype_name);
    }
    for (size_t i = 0; i < what->text_count; i++) {
        free_text(mem, what->texts[i].key);
        free_text(mem, what->texts[i].value);
    }
    mem_free(mem, what->tensors);
    mem_free(mem, what->texts);
    mem_free(mem, what);
}

/* ---- looking up ---- */

const struct safetensors_tensor *safetensors_find(const struct safetensors *what, const char *name)
{
    for (size_t i = 0; i < what->count; i++)
        if (strcmp(what->tensors[i].name, name) == 0)
            return &what->tensors[i];
    return NULL;
}

const char *safetensors_text(const struct safetensors *what, const char *key)
{
    for (size_t i = 0; i < what->text_count; i++)
        if (strcmp(what->texts[i].key, key) == 0)
            return what->texts[i].value;
    return NULL;
}
