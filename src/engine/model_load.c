/* Opening a saved model. */
#include <stdio.h>
#include <string.h>

#include "base/crc32c.h"
#include "engine/data/vocabulary.h"
#include "engine/model_inside.h"
#include "os/file.h"
#include "wire/safetensors.h"

static const size_t max_json_bytes = (size_t)1 << 31, max_values_bytes = (size_t)1 << 40;

struct loading {
    const struct mem *mem;
    const char *path;
    struct buf json_path, json, bytes;
    struct meaning meaning;
    struct safetensors *list;
};

static tri_status read_file(const char *path, size_t max, struct buf *out, tri_error *err)
{
    tri_status status = file_read(path, max, out, err);
    if (status == TRI_EINPUT)
        fail_next(err, "a model is FILE.safetensors with FILE.json beside it; trident train --out "
                       "writes both");
    return status;
}

static tri_status read_files(struct loading *loading, tri_error *err)
{
    tri_status status = model_json_path(loading->path, &loading->json_path, err);
    if (status == TRI_OK)
        status = read_file(loading->path, max_values_bytes, &loading->bytes, err);
    if (status != TRI_OK)
        return status;
    const struct safetensors_source source = {.path = loading->path,
                                              .bytes = buf_string(&loading->bytes),
                                              .len = loading->bytes.len,
                                              .file_bytes = loading->bytes.len};
    status = safetensors_read(&source, loading->mem, &loading->list, err);
    const char *json_path = buf_string(&loading->json_path);
    if (status == TRI_OK)
        status = read_file(json_path, max_json_bytes, &loading->json, err);
    if (status != TRI_OK)
        return status;
    return meaning_read(json_path, &loading->json, loading->mem, &loading->meaning, err);
}

static tri_status mismatch(const struct loading *loading, tri_error *err)
{
    fail_where(err, "%s, %s", loading->path, buf_string(&loading->json_path));
    fail_next(err, "keep both files of a model together, or train it again");
    return TRI_EINPUT;
}

static tri_status check_bytes(const struct loading *loading, const char *values, tri_error *err)
{
    size_t head = loading->list->head_bytes;
    char is[16];
    (void)snprintf(is, sizeof is, "%08x",
                   (unsigned)crc32c(0, loading->bytes.data + head, loading->bytes.len - head));
    if (strcmp(is, values) == 0)
        return TRI_OK;
    fail(err, TRI_EINPUT, "model '%.100s' is damaged", loading->path);
    fail_why(err, "its values have the checksum %s, and were written with %.20s", is, values);
    fail_next(err, "copy it again from where it came, or train it again");
    return TRI_EINPUT;
}

/* Values that another program has written have no checksum; then shapes must do. */
static tri_status check_pair(const struct loading *loading, tri_error *err)
{
    const char *values = safetensors_text(loading->list, MODEL_VALUES_KEY);
    if (values == NULL)
        return TRI_OK;
    if (strcmp(values, loading->meaning.values) == 0)
        return check_bytes(loading, values, err);
    fail(err, TRI_EINPUT, "the two files of model '%.100s' do not belong together", loading->path);
    fail_why(err, "one speaks of values '%.20s', the other of '%.20s'", values,
             loading->meaning.values);
    return mismatch(loading, err);
}

static bool has_shape(const struct safetensors_tensor *tensor, const struct model_value *value)
{
    return tensor->dtype == SAFETENSORS_F32 && tensor->dims == value->dims &&
           tensor->shape[0] == value->shape[0] &&
           (tensor->dims < 2 || tensor->shape[1] == value->shape[1]);
}

static void describe(const char *dtype, uint32_t dims, const uint64_t *shape, char out[100])
{
    size_t used = (size_t)snprintf(out, 100, "%.10s", dtype);
    for (uint32_t d = 0; d < dims && used < 100; d++)
        used += (size_t)snprintf(out + used, 100 - used, "%s%llu", d == 0 ? " " : " x ",
                                 (unsigned long long)shape[d]);
}

static tri_status load_value(const struct loading *loading, const struct model_value *value,
                             tri_error *err)
{
    const struct safetensors_tensor *tensor = safetensors_find(loading->list, value->name);
    if (tensor == NULL) {
        fail(err, TRI_EINPUT, "model '%.100s' has no tensor '%s'", loading->path, value->name);
        fail_why(err, "net '%.60s' needs it", buf_string(&loading->meaning.net));
        return mismatch(loading, err);
    }
    if (!has_shape(tensor, value)) {
        char is[100], wanted[100];
        describe(tensor->dtype_name, tensor->dims, tensor->shape, is);
        describe("F32", value->dims, value->shape, wanted);
        fail(err, TRI_EINPUT, "tensor '%s' of model '%.100s' does not fit", value->name,
             loading->path);
        fail_why(err, "it is %s; net '%.60s' needs %s", is, buf_string(&loading->meaning.net),
                 wanted);
        return mismatch(loading, err);
    }
    const char *from = loading->bytes.data + loading->list->head_bytes + tensor->offset;
    memcpy(value->at, from, value->floats * sizeof(float));
    return TRI_OK;
}

static const char *surplus(const struct safetensors *list, const struct model_value *values,
                           size_t count)
{
    for (size_t i = 0; i < list->count; i++) {
        size_t v = 0;
        while (v < count && strcmp(values[v].name, list->tensors[i].name) != 0)
            v++;
        if (v == count)
            return list->tensors[i].name;
    }
    return NULL;
}

static tri_status load_values(const struct loading *loading, struct net *net, tri_error *err)
{
    size_t count = 0;
    struct model_value *values = model_values(net, loading->mem, &count);
    if (values == NULL)
        return fail_nomem(err, "a list of tensors");
    tri_status status = TRI_OK;
    for (size_t i = 0; i < count && status == TRI_OK; i++)
        status = load_value(loading, &values[i], err);
    const char *extra = status == TRI_OK ? surplus(loading->list, values, count) : NULL;
    mem_free(loading->mem, values);
    if (extra == NULL)
        return status;
    fail(err, TRI_EINPUT, "net '%.60s' has no place for tensor '%.100s'",
         buf_string(&loading->meaning.net), extra);
    return mismatch(loading, err);
}

static tri_status make_model(struct loading *loading, uint32_t batch, struct model *model,
                             tri_error *err)
{
    const char *net = buf_string(&loading->meaning.net);
    tri_status status =
        net_new(net, &loading->meaning.data.shape, batch, 0, loading->mem, &model->net, err);
    if (status == TRI_EINPUT)
        fail_where(err, "%s", buf_string(&loading->json_path));
    if (status == TRI_OK)
        status = load_values(loading, model->net, err);
    if (status != TRI_OK)
        return status;
    (void)snprintf(model->name, sizeof model->name, "%.*s", (int)strcspn(net, ":"), net);
    model->data = loading->meaning.data;
    loading->meaning.data.words = loading->meaning.data.classes = NULL;
    return TRI_OK;
}

static tri_status load(struct loading *loading, uint32_t batch, struct model **out, tri_error *err)
{
    tri_status status = read_files(loading, err);
    if (status == TRI_OK)
        status = check_pair(loading, err);
    if (status != TRI_OK)
        return status;
    struct model *model = mem_array(loading->mem, 1, sizeof *model);
    if (model == NULL)
        return fail_nomem(err, "a model");
    model->mem = loading->mem;
    status = make_model(loading, batch, model, err);
    if (status == TRI_OK)
        *out = model;
    else
        model_close(model);
    return status;
}

tri_status model_load(const char *path, uint32_t batch, const struct mem *mem, struct model **out,
                      tri_error *err)
{
    struct loading loading = {.mem = mem, .path = path};
    buf_init(&loading.json_path, mem);
    buf_init(&loading.json, mem);
    buf_init(&loading.bytes, mem);
    tri_status status = load(&loading, batch, out, err);
    meaning_fini(&loading.meaning);
    safetensors_free(loading.list, mem);
    buf_fini(&loading.json_path);
    buf_fini(&loading.json);
    buf_fini(&loading.bytes);
    return status;
}

void model_close(struct model *model)
{
    if (model == NULL)
        return;
    net_free(model->net);
    vocabulary_free(model->data.words);
    vocabulary_free(model->data.classes);
    mem_free(model->mem, model);
}
