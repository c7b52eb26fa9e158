/* The reader of layer profiles. */
#include "plan/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/names.h"

static const char format_name[] = "layer-profile/1";

/* Everything while reading: the profile, and where in the text its layers are. */
struct reader {
    struct json json;
    struct profile *profile;
    struct buf text; /* scratch for strings */
    size_t cap;      /* of profile->layers */
    size_t *name_at; /* [layers] where each name stands */
    size_t name_cap;
    size_t rate_at;     /* where the measurement stands that the rate follows from */
    bool shares;        /* the layer that is being read has some */
    size_t with_shares; /* layers with parameters that have some */
    size_t without;     /* the last of the others */
    bool nomem;
};

/* ---- keys: one table per object ---- */

struct key {
    const char *name;
    void (*read)(struct reader *reader,
                 void *target); /* NULL: skipped, for people or other tools */
    bool required;
};

static const char *key_candidate(const void *ctx, size_t i)
{
    return ((const struct key *)ctx)[i].name;
}

static void refuse_key(struct reader *reader, const struct key *keys, const char *what)
{
    struct json *json = &reader->json;
    char near[NAMES_TEXT];
    json_refuse(json, json->key_at, "unknown key '%s' in %s", json->key, what);
    if (names_suggest(json->key, key_candidate, keys, near))
        json_advise(json, "did you mean %s?", near);
    else
        json_advise(json, "remove it, or begin its name with '_' to keep it as a remark");
}

/* Reads one object by its table of keys (ended by a NULL name, at most 64). */
static void read_object(struct reader *reader, const struct key *keys, const char *what,
                        void *target)
{
    struct json *json = &reader->json;
    const char *around = json->object;
    uint64_t seen = 0;
    json_object(json);
    json->object = what;
    size_t start = json->value;
    while (json_member(json)) {
        size_t i = 0;
        while (keys[i].name != NULL && strcmp(keys[i].name, json->key) != 0)
            i++;
        if (keys[i].name == NULL) {
            if (json->key[0] != '_')
                refuse_key(reader, keys, what);
            json_skip(json);
            continue;
        }
        if (seen >> i & 1) {
            json_refuse(json, json->key_at, "key '%s' stands twice in %s", json->key, what);
            json_advise(json, "remove one of the two");
        }
        seen |= UINT64_C(1) << i;
        if (keys[i].read != NULL)
            keys[i].read(reader, target);
        else
            json_skip(json);
    }
    json->object = around;
    for (size_t i = 0; keys[i].name != NULL && json->status == TRI_OK; i++)
        if (keys[i].required && !(seen >> i & 1)) {
            json_refuse(json, start, "%s has no '%s'", what, keys[i].name);
            json_advise(json, "add it; docs/profile.md in the source tree says what it means");
        }
}

/* Reads a string into the scratch buffer; false when there is none to look at. */
static bool read_scratch(struct reader *reader)
{
    json_string(&reader->json, &reader->text);
    reader->nomem = reader->nomem || !buf_ok(&reader->text);
    return reader->json.status == TRI_OK && !reader->nomem;
}

/* Takes a string into memory of the profile's own. */
static void read_text(struct reader *reader, char **out)
{
    if (!read_scratch(reader))
        return;
    char *text = mem_text(reader->profile->mem, buf_string(&reader->text), reader->text.len);
    reader->nomem = text == NULL;
    mem_free(reader->profile->mem, *out);
    *out = text;
}

/* As read_text, for what people may have written otherwise: that is left out. */
static void read_remark(struct reader *reader, char **out)
{
    if (json_is(&reader->json, '"'))
        read_text(reader, out);
    else
        json_skip(&reader->json);
}

/* ---- one layer ---- */

static void layer_name(struct reader *reader, void *target)
{
    struct profile_layer *layer = target;
    read_text(reader, &layer->name);
    reader->name_at[reader->profile->count] = reader->json.value;
    if (layer->name != NULL && layer->name[0] == '\0') {
        json_refuse(&reader->json, reader->json.value, "a layer's name must not be empty");
        json_advise(&reader->json, "give it a name of its own: options and plans refer to it");
    }
}

static const char *kind_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    return i < LAYER_KINDS ? layer_kind_name((tri_kind)i) : NULL;
}

static void layer_type(struct reader *reader, void *target)
{
    struct profile_layer *layer = target;
    char near[NAMES_TEXT];
    if (!read_scratch(reader))
        return;
    for (int kind = 0; kind < LAYER_KINDS; kind++)
        if (strcmp(layer_kind_name((tri_kind)kind), buf_string(&reader->text)) == 0) {
            layer->kind = (tri_kind)kind;
            return;
        }
    json_refuse(&reader->json, reader->json.value,
                "unknown layer type '%.40s': FC, CONV, EMBED, NORM and OTHER are known",
                buf_string(&reader->text));
    if (names_suggest(buf_string(&reader->text), kind_candidate, NULL, near))
        json_advise(&reader->json, "did you mean %s?", near);
    else
        json_advise(&reader->json, "take FC for a plain matrix product, OTHER for what fits none");
}

static void layer_tied(struct reader *reader, void *target)
{
    read_text(reader, &((struct profile_layer *)target)->tied_to);
}

#define LAYER_COUNT(field, min, max)                                                               \
    static void layer_##field(struct reader *reader, void *target)                                 \
    {                                                                                              \
        ((struct profile_layer *)target)->field = json_count(&reader->json, min, max);             \
    }
LAYER_COUNT(rows, 0, PROFILE_MAX_SIDE)
LAYER_COUNT(cols, 0, PROFILE_MAX_SIDE)
LAYER_COUNT(bias, 0, PROFILE_MAX_SIDE)
LAYER_COUNT(params, 0, PROFILE_MAX_PARAMS)
LAYER_COUNT(applications, 1, PROFILE_MAX_SIDE)
LAYER_COUNT(sparse_rows, 0, PROFILE_MAX_SIDE)

#define LAYER_NUMBER(field, most)                                                                  \
    static void layer_##field(struct reader *reader, void *target)                                 \
    {                                                                                              \
        ((struct profile_layer *)target)->field = json_between(&reader->json, 0, most);            \
    }
LAYER_NUMBER(fwd_flops, 1e18)
LAYER_NUMBER(bwd_flops, 1e18)

#define LAYER_SHARE(field)                                                                         \
    static void layer_##field(struct reader *reader, void *target)                                 \
    {                                                                                              \
        ((struct profile_layer *)target)->field = json_between(&reader->json, 0, 1);               \
        reader->shares = true;                                                                     \
    }
LAYER_SHARE(fwd_share)
LAYER_SHARE(bwd_share)

static const struct key layer_keys[] = {
    {"name", layer_name, true},
    {"type", layer_type, true},
    {"M", layer_rows, true},
    {"N", layer_cols, true},
    {"bias", layer_bias, false},
    {"params", layer_params, false},
    {"applications", layer_applications, false},
    {"sparse_rows", layer_sparse_rows, false},
    {"tied_to", layer_tied, false},
    {"fwd_flops", layer_fwd_flops, false},
    {"bwd_flops", layer_bwd_flops, false},
    {"fwd_share", layer_fwd_share, false},
    {"bwd_share", layer_bwd_share, false},
    {"time_share", NULL, false},
    {"out_elems", NULL, false},
    {"kernel", NULL, false},
    {"stride", NULL, false},
    {"groups", NULL, false},
    {"in_shape", NULL, false},
    {"out_shape", NULL, false},
    {"op", NULL, false},
    {"index", NULL, false},
    {NULL, NULL, false},
};

/* Do shape, bias and params fit together? `given` is params as the file has it. */
static void check_layer(struct reader *reader, struct profile_layer *layer, size_t at,
                        uint64_t given, bool has_params)
{
    struct json *json = &reader->json;
    const char *name = layer->name != NULL ? layer->name : "";
    uint64_t params = layer->rows * layer->cols + layer->bias; /* sides < 2^31: cannot overflow */
    if (params > PROFILE_MAX_PARAMS) {
        json_refuse(json, at, "layer '%.60s' has %llu x %llu parameters, more than 2^48", name,
                    (unsigned long long)layer->rows, (unsigned long long)layer->cols);
        json_advise(json, "check M (outputs) and N (inputs) of its weight matrix");
        return;
    }
    bool shapeless = layer->rows == 0 || layer->cols == 0;
    if (shapeless && (layer->kind != TRI_OTHER || params > 0 || given > 0)) {
        json_refuse(json, at, "layer '%.60s' has no shape: M is %llu and N is %llu", name,
                    (unsigned long long)layer->rows, (unsigned long long)layer->cols);
        json_advise(json, "give M (outputs) and N (inputs) of its weight matrix");
        return;
    }
    if (layer->bias != 0 && layer->bias != layer->rows) {
        json_refuse(json, at, "layer '%.60s' has a bias of %llu; it must be 0 or M, which is %llu",
                    name, (unsigned long long)layer->bias, (unsigned long long)layer->rows);
        json_advise(json, "bias counts values, one per output: give 0 or M");
        return;
    }
    if (layer->tied_to != NULL)
        params = 0;
    if (has_params && given != params) {
        json_refuse(json, at, "layer '%.60s' says params %llu, but M x N + bias is %llu", name,
                    (unsigned long long)given, (unsigned long long)params);
        json_advise(json, "correct M, N or bias, or leave params out: it only serves as a check");
        return;
    }
    layer->params = params;
}

static void read_layer(struct reader *reader)
{
    struct profile *profile = reader->profile;
    struct json *json = &reader->json;
    if (profile->count == PROFILE_MAX_LAYERS) {
        json_refuse(json, json->pos, "more than %zu layers", PROFILE_MAX_LAYERS);
        json_advise(json, "join layers that always travel together");
        return;
    }
    void *layers = profile->layers, *name_at = reader->name_at;
    if (mem_grow(profile->mem, &layers, &reader->cap, profile->count + 1,
                 sizeof *profile->layers) != NULL)
        profile->layers = layers;
    else
        reader->nomem = true;
    if (mem_grow(profile->mem, &name_at, &reader->name_cap, profile->count + 1,
                 sizeof *reader->name_at) != NULL)
        reader->name_at = name_at;
    else
        reader->nomem = true;
    if (reader->nomem)
        return;
    struct profile_layer *layer = &profile->layers[profile->count];
    *layer = (struct profile_layer){.applications = 1, .params = UINT64_MAX};
    reader->shares = false;
    read_object(reader, layer_keys, "a layer", layer);
    uint64_t given = layer->params;
    layer->params = 0;
    profile->count++; /* from here on profile_free() frees its strings */
    if (json->status != TRI_OK || reader->nomem)
        return;
    size_t at = reader->name_at[profile->count - 1];
    check_layer(reader, layer, at, given == UINT64_MAX ? 0 : given, given != UINT64_MAX);
    if (profile->params > PROFILE_MAX_PARAMS - layer->params) {
        json_refuse(json, at, "the layers up to '%.60s' have more than 2^48 parameters",
                    layer->name);
        json_advise(json, "check M and N of the layers up to there");
        return;
    }
    profile->params += layer->params;
    profile->with_params += layer->params > 0;
    reader->with_shares += layer->params > 0 && reader->shares;
    if (layer->params > 0 && !reader->shares)
        reader->without = profile->count - 1;
    profile->flops += layer->fwd_flops + layer->bwd_flops;
}

/* ---- the document ---- */

static void top_format(struct reader *reader, void *target)
{
    (void)target;
    struct json *json = &reader->json;
    if (!read_scratch(reader) || strcmp(buf_string(&reader->text), format_name) == 0)
        return;
    json_refuse(json, json->value, "format '%.40s' is not known; this version reads '%s'",
                buf_string(&reader->text), format_name);
    json_advise(json, "convert the profile, or use a version of trident that reads it");
}

static void top_name(struct reader *reader, void *target)
{
    struct profile *profile = target;
    read_text(reader, &profile->name);
    if (profile->name != NULL && profile->name[0] == '\0') {
        json_refuse(&reader->json, reader->json.value, "a model's name must not be empty");
        json_advise(&reader->json, "give the name that plans should show");
    }
}

static void top_title(struct reader *reader, void *target)
{
    read_text(reader, &((struct profile *)target)->title);
}

static void top_dtype(struct reader *reader, void *target)
{
    (void)target;
    uint64_t bytes = json_count(&reader->json, 1, 64);
    if (bytes == 4 || reader->json.status != TRI_OK)
        return;
    json_refuse(&reader->json, reader->json.value,
                "dtype_bytes is %llu; only 4 (fp32) is supported", (unsigned long long)bytes);
    json_advise(&reader->json, "give 4, or leave it out");
}

static void top_batch(struct reader *reader, void *target)
{
    ((struct profile *)target)->default_batch = json_count(&reader->json, 1, PROFILE_MAX_SIDE);
}

/* Shares of some layers only would leave no time for the others. */
static void check_shares(struct reader *reader)
{
    const struct profile *profile = reader->profile;
    if (reader->with_shares == 0 || reader->with_shares == profile->with_params || reader->nomem ||
        reader->json.status != TRI_OK)
        return;
    json_refuse(&reader->json, reader->name_at[reader->without],
                "layer '%.60s' has neither fwd_share nor bwd_share, but others have",
                profile->layers[reader->without].name);
    json_advise(&reader->json, "give them for all layers with parameters, or for none");
}

static void top_layers(struct reader *reader, void *target)
{
    (void)target;
    json_array(&reader->json);
    size_t at = reader->json.value;
    while (!reader->nomem && json_element(&reader->json))
        read_layer(reader);
    check_shares(reader);
    if (reader->profile->with_params > 0 || reader->nomem || reader->json.status != TRI_OK)
        return;
    json_refuse(&reader->json, at, "no layer has parameters: there is nothing to synchronise");
    json_advise(&reader->json, "give at least one layer with M and N");
}

static void measured_iteration(struct reader *reader, void *target)
{
    ((struct profile *)target)->iteration_s = json_between(&reader->json, 0, 1e9);
    reader->rate_at = reader->json.value;
}

static void measured_batch(struct reader *reader, void *target)
{
    ((struct profile *)target)->compute_batch =
        (double)json_count(&reader->json, 1, PROFILE_MAX_SIDE);
}

static void measured_source(struct reader *reader, void *target)
{
    read_remark(reader, &((struct profile *)target)->source);
}

static void measured_where(struct reader *reader, void *target)
{
    read_remark(reader, &((struct profile *)target)->where);
}

static void measured_device(struct reader *reader, void *target)
{
    read_remark(reader, &((struct profile *)target)->device);
}

static const struct key measured_keys[] = {
    {"iteration_s", measured_iteration, true},
    {"batch", measured_batch, true},
    {"samples_per_s", NULL, false},
    {"source", measured_source, false},
    {"where", measured_where, false},
    {"engine", NULL, false},
    {"device", measured_device, false},
    {"note", NULL, false},
    {NULL, NULL, false},
};

static void compute_default(struct reader *reader, void *target)
{
    read_object(reader, measured_keys, "compute.default", target);
}

static void compute_estimated(struct reader *reader, void *target)
{
    ((struct profile *)target)->estimated = json_bool(&reader->json);
}

static void compute_gflops(struct reader *reader, void *target)
{
    struct json *json = &reader->json;
    double gflops = json_between(json, PROFILE_MIN_FLOPS_S / 1e9, PROFILE_MAX_FLOPS_S / 1e9);
    if (json->status != TRI_OK)
        json_advise(json, "give the sustained rate of one node in GFLOP/s, or leave it out");
    else
        ((struct profile *)target)->flops_s = 1e9 * gflops;
}

static const struct key compute_keys[] = {
    {"default", compute_default, false},
    {"estimated", compute_estimated, false},
    {"effective_gflops", compute_gflops, false},
    {"facts", NULL, false},
    {"how_to_split", NULL, false},
    {NULL, NULL, false},
};

static void top_compute(struct reader *reader, void *target)
{
    read_object(reader, compute_keys, "compute", target);
}

static const struct key top_keys[] = {
    {"format", top_format, true},
    {"name", top_name, true},
    {"title", top_title, false},
    {"dtype_bytes", top_dtype, false},
    {"default_batch", top_batch, false},
    {"compute", top_compute, false},
    {"layers", top_layers, true},
    {"input_shape", NULL, false},
    {"sequence_tokens", NULL, false},
    {"training_samples", NULL, false},
    {"inferred", NULL, false},
    {"inferred_note", NULL, false},
    {"totals", NULL, false},
    {"published", NULL, false},
    {NULL, NULL, false},
};

/* ---- what only the whole list of layers can tell ---- */

/* As strcmp, with '-' and '_' the same. */
static int name_order(const char *a, const char *b)
{
    for (;; a++, b++) {
        char x = *a == '_' ? '-' : *a, y = *b == '_' ? '-' : *b;
        if (x != y)
            return x < y ? -1 : 1;
        if (x == '\0')
            return 0;
    }
}

static int by_name(const void *a, const void *b, void *ctx)
{
    const struct profile_layer *layers = ctx;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;
    int order = name_order(layers[x].name, layers[y].name);
    return order != 0 ? order : x < y ? -1 : 1;
}

/* The layer of that name among the sorted ones, NULL if there is none. */
static struct profile_layer *find_sorted(const struct profile *profile, const size_t *sorted,
                                         const char *wanted)
{
    size_t low = 0, high = profile->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (name_order(profile->layers[sorted[middle]].name, wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == profile->count || name_order(profile->layers[sorted[low]].name, wanted) != 0)
        return NULL;
    return &profile->layers[sorted[low]];
}

/* A layer that uses another one's weights adds to that one's update. */
static void resolve_tie(struct reader *reader, const size_t *sorted, size_t i)
{
    const struct profile_layer *layer = &reader->profile->layers[i];
    struct profile_layer *owner = find_sorted(reader->profile, sorted, layer->tied_to);
    if (owner == NULL || owner->params == 0) {
        json_refuse(&reader->json, reader->name_at[i],
                    "layer '%.60s' is tied to '%.60s', which is not a layer with parameters",
                    layer->name, layer->tied_to);
        json_advise(&reader->json, "name the layer whose weights it uses, or leave tied_to out");
        return;
    }
    bool same = layer->rows == owner->rows && layer->cols == owner->cols;
    bool turned = layer->rows == owner->cols && layer->cols == owner->rows;
    if (!same && !turned) {
        json_refuse(&reader->json, reader->name_at[i],
                    "layer '%.60s' is tied to '%.60s' but has another shape", layer->name,
                    owner->name);
        json_advise(&reader->json, "give it M and N of that layer, as they are or swapped");
    }
    owner->dense = true;
    owner->applications += layer->applications;
}

/* Sorted, so that 10,000 layers stay cheap. */
static void check_names(struct reader *reader)
{
    struct profile *profile = reader->profile;
    size_t *sorted = mem_array(profile->mem, profile->count, sizeof *sorted);
    if (sorted == NULL) {
        reader->nomem = true;
        return;
    }
    for (size_t i = 0; i < profile->count; i++)
        sorted[i] = i;
    qsort_r(sorted, profile->count, sizeof *sorted, by_name, profile->layers);
    for (size_t i = 1; i < profile->count; i++)
        if (name_order(profile->layers[sorted[i]].name, profile->layers[sorted[i - 1]].name) == 0) {
            json_refuse(&reader->json, reader->name_at[sorted[i]], "two layers are called '%.60s'",
                        profile->layers[sorted[i]].name);
            json_advise(&reader->json, "rename one of them ('-' and '_' count as the same)");
        }
    for (size_t i = 0; i < profile->count; i++)
        if (profile->layers[i].tied_to != NULL)
            resolve_tie(reader, sorted, i);
    mem_free(profile->mem, sorted);
}

/* The measured rate, for a profile that gives a time but no rate. */
static void derive_rate(struct reader *reader)
{
    struct profile *profile = reader->profile;
    if (profile->flops_s > 0 || !(profile->iteration_s > 0) || !(profile->flops > 0))
        return;
    double rate = profile->flops * profile->compute_batch / profile->iteration_s;
    if (rate >= PROFILE_MIN_FLOPS_S && rate <= PROFILE_MAX_FLOPS_S) {
        profile->flops_s = rate;
        return;
    }
    json_refuse(&reader->json, reader->rate_at,
                "iteration_s, batch and the layers' flops come to %g flop/s, which is not between "
                "%g and %g",
                rate, PROFILE_MIN_FLOPS_S, PROFILE_MAX_FLOPS_S);
    json_advise(&reader->json, "iteration_s is in seconds for the whole batch, fwd_flops and "
                               "bwd_flops are per sample");
}

/* Editors put it there unseen, and the finger would point at nothing. */
static void refuse_byte_order_mark(struct json *json)
{
    if (json->len >= 3 && memcmp(json->text, "\xEF\xBB\xBF", 3) == 0) {
        json_refuse(json, 0, "the file begins with a byte order mark");
        json_advise(json, "save it as UTF-8 without one");
    } else if (json->len >= 2 &&
               (memcmp(json->text, "\xFF\xFE", 2) == 0 || memcmp(json->text, "\xFE\xFF", 2) == 0)) {
        json_refuse(json, 0, "the file is UTF-16");
        json_advise(json, "save it as UTF-8 without a byte order mark");
    }
}

tri_status profile_read(const char *file, const char *text, size_t len, const struct mem *mem,
                        struct profile **out, tri_error *err)
{
    struct reader reader = {.profile = mem_array(mem, 1, sizeof *reader.profile)};
    if (reader.profile == NULL)
        return fail_nomem(err, "a layer profile");
    reader.profile->mem = mem;
    buf_init(&reader.text, mem);
    json_open(&reader.json, file, text, len, err);
    refuse_byte_order_mark(&reader.json);
    read_object(&reader, top_keys, "the profile", reader.profile);
    json_end(&reader.json);
    if (reader.profile->title == NULL && !reader.nomem) {
        reader.profile->title = mem_text(mem, "", 0);
        reader.nomem = reader.profile->title == NULL;
    }
    if (reader.json.status == TRI_OK && !reader.nomem)
        check_names(&reader);
    if (reader.json.status == TRI_OK && !reader.nomem)
        derive_rate(&reader);
    if (reader.json.status != TRI_OK)
        json_advise(&reader.json,
                    "mend the file there; docs/profile.md in the source tree describes the format");
    buf_fini(&reader.text);
    mem_free(mem, reader.name_at);

    tri_status status = reader.json.status;
    if (reader.nomem)
        status = fail_nomem(err, "a layer profile");
    if (status == TRI_OK)
        *out = reader.profile;
    else
        profile_free(reader.profile);
    return status;
}

void profile_free(struct profile *profile)
{
    if (profile == NULL)
        return;
    for (size_t i = 0; i < profile->count; i++) {
        mem_free(profile->mem, profile->layers[i].name);
        mem_free(profile->mem, profile->layers[i].tied_to);
    }
    mem_free(profile->mem, profile->layers);
    mem_free(profile->mem, profile->name);
    mem_free(profile->mem, profile->title);
    mem_free(profile->mem, profile->device);
    mem_free(profile->mem, profile->source);
    mem_free(profile->mem, profile->where);
    mem_free(profile->mem, profile);
}

const struct profile_layer *profile_layer(const struct profile *profile, const char *name)
{
    for (size_t i = 0; i < profile->count; i++)
        if (names_equal(profile->layers[i].name, name))
            return &profile->layers[i];
    return NULL;
}
