/* Opens data sets by the names that users write, and makes batches of them. */
#include "engine/data/data.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "engine/data/gz.h"
#include "engine/data/pictures.h"
#include "engine/data/texts.h"

enum kind { IDX, CIFAR, TABLE };

/* A name that users write before the colon. */
struct source {
    const char *name;
    enum kind kind;
    char separator;           /* of tables */
    const char *folder;       /* where it is without a path */
    const char *package;      /* of Debian, that brings the folder */
    uint32_t classes;         /* of IDX; 0: see the files */
    const char *const *names; /* of the classes; NULL: numbers */
    const char *usage;
};

enum { DIGITS = 10, CLOTHES = 10 };
static const char *const clothes[CLOTHES] = {"T-shirt/top", "Trouser",   "Pullover", "Dress",
                                             "Coat",        "Sandal",    "Shirt",    "Sneaker",
                                             "Bag",         "Ankle boot"};

static const struct source sources[] = {
    {.name = "fashion-mnist",
     .kind = IDX,
     .folder = "/usr/share/datasets/fashion-mnist",
     .package = "dataset-fashion-mnist",
     .classes = CLOTHES,
     .names = clothes,
     .usage = "fashion-mnist"},
    {.name = "mnist", .kind = IDX, .classes = DIGITS, .usage = "mnist:DIR"},
    {.name = "idx", .kind = IDX, .usage = "idx:DIR"},
    {.name = "cifar10", .kind = CIFAR, .usage = "cifar10:DIR"},
    {.name = "csv", .kind = TABLE, .separator = ',', .usage = "csv:FILE"},
    {.name = "tsv", .kind = TABLE, .separator = '\t', .usage = "tsv:FILE"},
};
enum { SOURCES = sizeof sources / sizeof sources[0] };

static const char *source_name(const void *ctx, size_t i)
{
    (void)ctx;
    return i < SOURCES ? sources[i].usage : NULL;
}

/* Where one data set comes from. */
struct place {
    const struct source *source;
    char path[GZ_PATH];
};

static const struct source *find_source(const char *text, const char **path)
{
    size_t len = strcspn(text, ":");
    *path = text[len] == ':' ? text + len + 1 : "";
    for (size_t i = 0; i < SOURCES; i++)
        if (strlen(sources[i].name) == len && strncmp(sources[i].name, text, len) == 0)
            return &sources[i];
    return NULL;
}

static tri_status unknown(const char *text, tri_error *err)
{
    char advice[NAMES_TEXT];
    const char *dot = strrchr(text, '.');
    fail(err, TRI_EINPUT, "there is no kind of data '%.100s'", text);
    if (dot != NULL && (strcmp(dot, ".csv") == 0 || strcmp(dot, ".tsv") == 0)) {
        fail_next(err, "say what kind of file it is:  %s:%.150s", dot + 1, text);
        return TRI_EINPUT;
    }
    names_advise(text, source_name, NULL, advice);
    fail_next(err, "%s", advice);
    return TRI_EINPUT;
}

static tri_status put_path(struct place *place, const char *folder, const char *path,
                           tri_error *err)
{
    int len = snprintf(place->path, sizeof place->path, "%s%s", folder, path);
    if (len < 0 || (size_t)len >= sizeof place->path)
        return fail(err, TRI_EINPUT, "the path '%.100s...' is too long", path);
    return TRI_OK;
}

static tri_status find_place(const char *text, struct place *place, tri_error *err)
{
    const char *path, *root = getenv("TRIDENT_DATA");
    place->source = find_source(text, &path);
    if (place->source == NULL)
        return unknown(text, err);
    if (path[0] != '\0')
        return put_path(place, "", path, err);
    if (place->source->folder != NULL)
        return put_path(place, "", place->source->folder, err);
    if (strcmp(place->source->name, "mnist") == 0 && root != NULL)
        return put_path(place, root, "/mnist", err);
    fail(err, TRI_EINPUT, "'%s' does not say where the files are", text);
    fail_next(err, "write  %s", place->source->usage);
    return TRI_EINPUT;
}

/* Test data: as data, or only a path of the same kind. */
static tri_status find_test_place(const char *text, const struct source *like, struct place *place,
                                  tri_error *err)
{
    const char *path;
    if (find_source(text, &path) != NULL && (path[0] != '\0' || !gz_exists(text)))
        return find_place(text, place, err);
    place->source = like;
    return put_path(place, "", text, err);
}

static struct pictures_source pictures_of(const struct place *place, const struct mem *mem)
{
    return (struct pictures_source){.path = place->path,
                                    .cifar = place->source->kind == CIFAR,
                                    .classes = place->source->classes,
                                    .names = place->source->names,
                                    .mem = mem};
}

static struct texts_source texts_of(const struct place *place, const struct data_options *options,
                                    const struct mem *mem)
{
    return (struct texts_source){
        .path = place->path, .separator = place->source->separator, .options = options, .mem = mem};
}

static tri_status other_kind(const struct place *place, bool text, tri_error *err)
{
    fail(err, TRI_EINPUT, "'%s' holds %s, and %s wanted", place->path,
         place->source->kind == TABLE ? "text" : "images", text ? "text is" : "images are");
    fail_where(err, "%s", place->path);
    fail_next(err, "give data of the kind that was trained with");
    return TRI_EINPUT;
}

static tri_status read_place(const struct place *place, const struct data_options *options,
                             const struct data *like, enum pictures_labels wish,
                             const struct mem *mem, struct data *out, tri_error *err)
{
    if (like->text != (place->source->kind == TABLE))
        return other_kind(place, like->text, err);
    if (like->text) {
        struct texts_source texts = texts_of(place, options, mem);
        return texts_read(&texts, like, wish == PICTURES_LABELLED, out, err);
    }
    struct pictures_source pictures = pictures_of(place, mem);
    return pictures_read(&pictures, like, wish, out, err);
}

static tri_status open_train(const struct place *place, const struct data_options *options,
                             struct data_set *set, tri_error *err)
{
    if (place->source->kind == TABLE) {
        struct texts_source texts = texts_of(place, options, set->mem);
        return texts_open(&texts, options->test == NULL, set, err);
    }
    struct pictures_source pictures = pictures_of(place, set->mem);
    tri_status status = pictures_open(&pictures, set, err);
    if (status == TRI_EINPUT && place->source->package != NULL && !gz_exists(place->path))
        fail_next(err, "install it:  apt-get install %s", place->source->package);
    return status;
}

static tri_status open_both(const struct place *place, const struct data_options *options,
                            struct data_set *set, tri_error *err)
{
    struct place test = *place;
    tri_status status = open_train(place, options, set, err);
    if (status != TRI_OK || set->test.samples > 0)
        return status;
    if (options->test != NULL)
        status = find_test_place(options->test, place->source, &test, err);
    if (status != TRI_OK)
        return status;
    return read_place(&test, options, &set->train, PICTURES_LABELLED, set->mem, &set->test, err);
}

tri_status data_open(const struct data_options *options, const struct mem *mem,
                     struct data_set **out, tri_error *err)
{
    struct place place;
    tri_status status = find_place(options->data, &place, err);
    if (status != TRI_OK)
        return status;
    struct data_set *set = mem_array(mem, 1, sizeof *set);
    if (set == NULL)
        return fail_nomem(err, "a data set");
    set->mem = mem;
    (void)snprintf(set->name, sizeof set->name, "%s", options->data);
    status = open_both(&place, options, set, err);
    if (status == TRI_OK)
        *out = set;
    else
        data_close(set);
    return status;
}

void data_close(struct data_set *set)
{
    if (set == NULL)
        return;
    data_fini(&set->test, set->mem);
    data_fini(&set->train, set->mem);
    vocabulary_free(set->train.words);
    vocabulary_free(set->train.classes);
    mem_free(set->mem, set);
}

tri_status data_read(const struct data_options *options, const struct data *like,
                     const struct mem *mem, struct data *out, tri_error *err)
{
    struct place place;
    tri_status status = find_place(options->data, &place, err);
    if (status != TRI_OK)
        return status;
    return read_place(&place, options, like,
                      options->unlabelled ? PICTURES_UNLABELLED : PICTURES_MAYBE, mem, out, err);
}

void data_fini(struct data *data, const struct mem *mem)
{
    mem_free(mem, (void *)data->images);
    mem_free(mem, (void *)data->tokens);
    mem_free(mem, (void *)data->starts);
    mem_free(mem, (void *)data->labels);
    data->images = NULL;
    data->tokens = data->labels = NULL;
    data->starts = NULL;
    data->samples = 0;
}

static void scale_image(const struct data *data, const uint8_t *from, float *to)
{
    size_t area = (size_t)data->shape.image.height * data->shape.image.width;
    for (uint32_t c = 0; c < data->shape.image.channels; c++, from += area, to += area) {
        float times = data->scale[c] / 255, minus = data->mean[c] * data->scale[c];
        for (size_t i = 0; i < area; i++)
            to[i] = (float)from[i] * times - minus;
    }
}

static void pad_tokens(const struct data *data, uint64_t number, uint32_t *to)
{
    size_t length = data->shape.length, from = data->starts[number];
    size_t count = data->starts[number + 1] - from;
    memcpy(to, data->tokens + from, count * sizeof *to);
    memset(to + count, 0, (length - count) * sizeof *to);
}

void data_batch(const struct data *data, const uint64_t *numbers, uint32_t count,
                const struct net_batch *out)
{
    size_t floats = shape3_floats(data->shape.image), length = data->shape.length;
    for (uint32_t i = 0; i < count; i++) {
        if (data->text)
            pad_tokens(data, numbers[i], out->tokens + i * length);
        else
            scale_image(data, data->images + numbers[i] * floats, out->images + i * floats);
        if (out->labels != NULL)
            out->labels[i] = data->labels != NULL ? data->labels[numbers[i]] : 0;
    }
}
