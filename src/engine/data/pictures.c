/* Reads images with their labels. */
#include "engine/data/pictures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/data/cifar.h"
#include "engine/data/gz.h"
#include "engine/data/idx.h"

/* Mean and inverse standard deviation of each channel. Sums of bytes are exact. */
static void measure(const struct images *images, struct data *out)
{
    size_t area = (size_t)images->shape.height * images->shape.width;
    double n = (double)images->count * (double)area;
    for (uint32_t c = 0; c < images->shape.channels; c++) {
        uint64_t sum = 0, squares = 0;
        for (size_t i = 0; i < images->count; i++) {
            const uint8_t *p = images->pixels + (i * images->shape.channels + c) * area;
            uint64_t line = 0, line_squares = 0;
            for (size_t k = 0; k < area; k++) {
                line += p[k];
                line_squares += (uint64_t)((uint32_t)p[k] * p[k]);
            }
            sum += line;
            squares += line_squares;
        }
        double mean = (double)sum / n;
        double deviation = sqrt(fmax(0, (double)squares / n - mean * mean));
        out->mean[c] = (float)(mean / 255);
        out->scale[c] = deviation > 0.5 ? (float)(255 / deviation) : 1;
    }
}

/* Hands the pixels over to *out; labels become wider. */
static tri_status take(struct images *images, const struct mem *mem, struct data *out,
                       tri_error *err)
{
    uint32_t *labels = NULL;
    if (images->labels != NULL) {
        labels = mem_array(mem, images->count, sizeof *labels);
        if (labels == NULL)
            return fail_nomem(err, "labels");
        for (size_t i = 0; i < images->count; i++)
            labels[i] = images->labels[i];
    }
    out->samples = images->count;
    out->images = images->pixels;
    out->labels = labels;
    images->pixels = NULL;
    return TRI_OK;
}

static tri_status number_names(uint32_t count, const struct mem *mem, struct vocabulary **out,
                               tri_error *err)
{
    struct vocabulary *names = vocabulary_new(mem);
    bool ok = names != NULL;
    for (uint32_t i = 0; ok && i < count; i++) {
        char name[16];
        int len = snprintf(name, sizeof name, "%u", i);
        ok = vocabulary_add(names, name, (size_t)len) != VOCABULARY_NONE;
    }
    if (ok) {
        *out = names;
        return TRI_OK;
    }
    vocabulary_free(names);
    return fail_nomem(err, "names of classes");
}

static tri_status name_classes(const struct pictures_source *source, uint32_t classes,
                               struct vocabulary **out, tri_error *err)
{
    if (source->cifar)
        return cifar_names(source->path, source->mem, out, err);
    if (source->names != NULL)
        return vocabulary_of(source->names, classes, source->mem, out, err);
    return number_names(classes, source->mem, out, err);
}

static tri_status check_two_classes(const struct pictures_source *source,
                                    const struct images *images, tri_error *err)
{
    for (size_t i = 1; i < images->count; i++)
        if (images->labels[i] != images->labels[0])
            return TRI_OK;
    fail(err, TRI_EINPUT, "all images of '%s' have the label %u", source->path, images->labels[0]);
    fail_where(err, "%s", source->path);
    fail_why(err, "there is nothing to learn with one class");
    fail_next(err, "give data with at least two classes");
    return TRI_EINPUT;
}

/* The images and labels of a folder of IDX files, "train" or "t10k". */
static tri_status load_idx_folder(const struct pictures_source *source, const char *part,
                                  bool labelled, struct images *out, tri_error *err)
{
    char name[40], images[GZ_PATH], labels[GZ_PATH];
    (void)snprintf(name, sizeof name, "%s-images-idx3-ubyte", part);
    tri_status status = gz_find(source->path, name, images, err);
    (void)snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
    if (status == TRI_OK && labelled)
        status = gz_find(source->path, name, labels, err);
    if (status != TRI_OK)
        return status;
    return idx_load(images, labelled ? labels : NULL, source->classes, source->mem, out, err);
}

static tri_status make_train(const struct pictures_source *source, struct images *images,
                             struct data *train, tri_error *err)
{
    tri_status status = check_two_classes(source, images, err);
    if (status == TRI_OK)
        status = name_classes(source, images->classes, &train->classes, err);
    if (status == TRI_OK) {
        measure(images, train);
        train->shape = (struct net_data){.image = images->shape, .classes = images->classes};
        status = take(images, source->mem, train, err);
    }
    return status;
}

tri_status pictures_open(const struct pictures_source *source, struct data_set *set, tri_error *err)
{
    struct images images = {0};
    tri_status status = source->cifar ? cifar_load_batches(source->path, source->mem, &images, err)
                                      : load_idx_folder(source, "train", true, &images, err);
    if (status == TRI_OK)
        status = make_train(source, &images, &set->train, err);
    images_fini(&images, source->mem);
    return status;
}

/* The file of labels that belongs to one of images, by its name, plain or gzip. False: none. */
static bool labels_beside(const char *images, char out[GZ_PATH])
{
    static const char from[] = "images-idx3", to[] = "labels-idx1";
    const char *found = NULL;
    for (const char *p = images; (p = strstr(p, from)) != NULL; p++)
        found = p;
    size_t len = strlen(images);
    if (found == NULL || len + sizeof ".gz" > GZ_PATH)
        return false;
    memcpy(out, images, len + 1);
    memcpy(out + (found - images), to, sizeof to - 1);
    if (gz_exists(out))
        return true;
    if (len > 3 && strcmp(out + len - 3, ".gz") == 0)
        out[len - 3] = '\0';
    else
        memcpy(out + len, ".gz", sizeof ".gz");
    return gz_exists(out);
}

static tri_status no_labels(const char *path, tri_error *err)
{
    fail(err, TRI_EINPUT, "there are no labels for the images of '%s'", path);
    fail_where(err, "%s", path);
    fail_why(err, "they are looked for in the file whose name has 'labels-idx1' for 'images-idx3'");
    fail_next(err, "give a folder or a file such as t10k-images-idx3-ubyte.gz, with its labels");
    return TRI_EINPUT;
}

static tri_status load_idx(const struct pictures_source *source, enum pictures_labels wish,
                           struct images *out, tri_error *err)
{
    char labels[GZ_PATH];
    if (gz_is_folder(source->path))
        return load_idx_folder(source, "t10k", wish != PICTURES_UNLABELLED, out, err);
    bool found = wish != PICTURES_UNLABELLED && labels_beside(source->path, labels);
    if (!found && wish == PICTURES_LABELLED && gz_exists(source->path))
        return no_labels(source->path, err);
    return idx_load(source->path, found ? labels : NULL, source->classes, source->mem, out, err);
}

static tri_status load_cifar(const struct pictures_source *source, enum pictures_labels wish,
                             struct images *out, tri_error *err)
{
    char file[GZ_PATH];
    const char *path = source->path;
    if (gz_is_folder(path)) {
        tri_status status = gz_find(path, "test_batch.bin", file, err);
        if (status != TRI_OK)
            return status;
        path = file;
    }
    return cifar_load(path, wish != PICTURES_LABELLED, source->mem, out, err);
}

static tri_status check_shape(const char *path, struct shape3 has, const struct net_data *like,
                              tri_error *err)
{
    struct shape3 wanted = like->image;
    if (has.channels == wanted.channels && has.height == wanted.height && has.width == wanted.width)
        return TRI_OK;
    fail(err, TRI_EINPUT, "the images of '%s' are %u x %u x %u", path, has.channels, has.height,
         has.width);
    fail_where(err, "%s", path);
    fail_why(err, "those that were trained with are %u x %u x %u (channels, height, width)",
             wanted.channels, wanted.height, wanted.width);
    fail_next(err, "give images of the same shape");
    return TRI_EINPUT;
}

static tri_status check_fit(const struct pictures_source *source, const struct images *images,
                            const struct data *like, tri_error *err)
{
    tri_status status = check_shape(source->path, images->shape, &like->shape, err);
    if (status != TRI_OK || images->labels == NULL || images->classes <= like->shape.classes)
        return status;
    fail(err, TRI_EINPUT, "'%s' has %u classes, and there are %u", source->path, images->classes,
         like->shape.classes);
    fail_where(err, "%s", source->path);
    fail_next(err, "give data with the labels that were trained with");
    return TRI_EINPUT;
}

tri_status pictures_read(const struct pictures_source *source, const struct data *like,
                         enum pictures_labels wish, struct data *out, tri_error *err)
{
    struct images images = {0};
    struct data made = *like;
    made.tokens = NULL;
    made.starts = NULL;
    struct pictures_source known = *source;
    known.classes = like->shape.classes;
    tri_status status = source->cifar ? load_cifar(&known, wish, &images, err)
                                      : load_idx(&known, wish, &images, err);
    if (status == TRI_OK && wish == PICTURES_UNLABELLED) {
        mem_free(source->mem, images.labels);
        images.labels = NULL;
    }
    if (status == TRI_OK)
        status = check_fit(source, &images, like, err);
    if (status == TRI_OK)
        status = take(&images, source->mem, &made, err);
    images_fini(&images, source->mem);
    if (status == TRI_OK)
        *out = made;
    return status;
}
