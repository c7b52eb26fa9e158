/* Reads IDX files. */
#include "engine/data/idx.h"

#include <string.h>

#include "engine/data/gz.h"

static uint32_t big_endian(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static tri_status no_idx(const char *name, size_t offset, tri_error *err)
{
    fail_where(err, "%s, offset %zu", name, offset);
    return TRI_EINPUT;
}

static tri_status check_magic(const char *name, const uint8_t *bytes, size_t len,
                              uint32_t dimensions, tri_error *err)
{
    const char *what = dimensions == IDX_IMAGES ? "images" : "labels";
    uint32_t wanted = 0x800 | dimensions;
    if (len == 0) {
        fail(err, TRI_EINPUT, "'%s' is empty", name);
        fail_next(err, "get the file again, or give another one");
        return no_idx(name, 0, err);
    }
    if (len < 4 || big_endian(bytes) != wanted) {
        fail(err, TRI_EINPUT, "'%s' is no IDX file of %s", name, what);
        if (len >= 4)
            fail_why(err, "it begins with 0x%08x instead of 0x%08x", big_endian(bytes), wanted);
        fail_next(err, "give a file such as train-%s-idx%u-ubyte.gz", what, dimensions);
        return no_idx(name, 0, err);
    }
    return TRI_OK;
}

static tri_status check_sizes(const char *name, const struct idx *idx, uint32_t dimensions,
                              tri_error *err)
{
    if (idx->count == 0) {
        fail(err, TRI_EINPUT, "'%s' holds no %s", name,
             dimensions == IDX_IMAGES ? "images" : "labels");
        fail_next(err, "give a file with at least one");
        return no_idx(name, 4, err);
    }
    if (idx->height == 0 || idx->width == 0 || idx->height > IDX_MAX_SIDE ||
        idx->width > IDX_MAX_SIDE) {
        fail(err, TRI_EINPUT, "'%s' says that its images are %u x %u", name, idx->height,
             idx->width);
        fail_next(err, "both sides must be 1 to %d", IDX_MAX_SIDE);
        return no_idx(name, 8, err);
    }
    return TRI_OK;
}

tri_status idx_parse(const char *name, const void *bytes, size_t len, uint32_t dimensions,
                     struct idx *out, tri_error *err)
{
    const uint8_t *p = bytes;
    size_t head = 4 + (size_t)4 * dimensions;
    tri_status status = check_magic(name, p, len, dimensions, err);
    if (status != TRI_OK)
        return status;
    if (len < head) {
        fail(err, TRI_EINPUT, "'%s' ends before its sizes do", name);
        fail_next(err, "get the file again");
        return no_idx(name, len, err);
    }
    struct idx idx = {.count = big_endian(p + 4), .height = 1, .width = 1, .at = head};
    if (dimensions == IDX_IMAGES) {
        idx.height = big_endian(p + 8);
        idx.width = big_endian(p + 12);
    }
    status = check_sizes(name, &idx, dimensions, err);
    if (status != TRI_OK)
        return status;
    /* Below 2^56. */
    uint64_t wanted = (uint64_t)idx.count * ((uint64_t)idx.height * idx.width);
    if (wanted != len - head) {
        fail(err, TRI_EINPUT, "'%s' is too %s", name, len - head < wanted ? "short" : "long");
        fail_why(err, "its sizes ask for %llu bytes behind them, and there are %zu",
                 (unsigned long long)wanted, len - head);
        fail_next(err, "get the file again");
        return no_idx(name, len - head < wanted ? len : head + (size_t)wanted, err);
    }
    *out = idx;
    return TRI_OK;
}

/* The values of a file, moved to the front of memory that is the caller's. */
static tri_status load(const char *path, uint32_t dimensions, const struct mem *mem,
                       struct idx *idx, uint8_t **out, tri_error *err)
{
    struct buf file;
    buf_init(&file, mem);
    tri_status status = gz_read(path, &file, err);
    if (status == TRI_OK)
        status = idx_parse(path, buf_string(&file), file.len, dimensions, idx, err);
    if (status != TRI_OK) {
        buf_fini(&file);
        return status;
    }
    size_t len = file.len - idx->at;
    memmove(file.data, file.data + idx->at, len);
    void *less = mem->resize(mem->ctx, file.data, len);
    *out = less != NULL ? less : (void *)file.data;
    return TRI_OK;
}

static tri_status out_of_range(const char *path, size_t i, const struct images *images,
                               tri_error *err)
{
    fail(err, TRI_EINPUT, "label %u is out of range", images->labels[i]);
    fail_where(err, "%s, offset %zu (label %zu)", path, i + 8, i + 1);
    fail_next(err, "labels must be 0 to %u", images->classes - 1);
    return TRI_EINPUT;
}

/* How many classes there are: as many as the largest label says. */
static tri_status count_classes(const char *path, struct images *images, tri_error *err)
{
    bool seen[256] = {false};
    size_t first_of[256] = {0};
    for (size_t i = images->count; i-- > 0;) {
        seen[images->labels[i]] = true;
        first_of[images->labels[i]] = i;
    }
    uint32_t largest = 255, gap = 1;
    while (!seen[largest])
        largest--;
    while (gap < largest && seen[gap])
        gap++;
    if (gap < largest) {
        uint32_t behind = gap + 1;
        while (!seen[behind])
            behind++;
        fail(err, TRI_EINPUT, "label %u is out of range", behind);
        fail_where(err, "%s, offset %zu (label %zu)", path, first_of[behind] + 8,
                   first_of[behind] + 1);
        fail_why(err, "no image has the label %u, and labels count without gaps", gap);
        fail_next(err, "number the classes from 0, or get the file again");
        return TRI_EINPUT;
    }
    images->classes = largest + 1;
    return TRI_OK;
}

static tri_status check_labels(const char *path, uint32_t classes, struct images *images,
                               tri_error *err)
{
    images->classes = classes;
    if (classes == 0)
        return count_classes(path, images, err);
    for (size_t i = 0; i < images->count; i++)
        if (images->labels[i] >= classes)
            return out_of_range(path, i, images, err);
    return TRI_OK;
}

static tri_status load_labels(const char *path, const char *of, uint32_t classes,
                              const struct mem *mem, struct images *images, tri_error *err)
{
    struct idx idx;
    tri_status status = load(path, IDX_LABELS, mem, &idx, &images->labels, err);
    if (status != TRI_OK)
        return status;
    if (idx.count != images->count) {
        fail(err, TRI_EINPUT, "'%s' has %zu labels for %zu images", path, idx.count, images->count);
        fail_where(err, "%s, offset 4", path);
        fail_why(err, "the images are those of '%s'", of);
        fail_next(err, "give two files that belong together");
        return TRI_EINPUT;
    }
    return check_labels(path, classes, images, err);
}

tri_status idx_load(const char *images, const char *labels, uint32_t classes, const struct mem *mem,
                    struct images *out, tri_error *err)
{
    struct images loaded = {.classes = classes};
    struct idx idx;
    tri_status status = load(images, IDX_IMAGES, mem, &idx, &loaded.pixels, err);
    if (status != TRI_OK)
        return status;
    loaded.count = idx.count;
    loaded.shape = (struct shape3){.channels = 1, .height = idx.height, .width = idx.width};
    if (labels != NULL)
        status = load_labels(labels, images, classes, mem, &loaded, err);
    if (status != TRI_OK) {
        images_fini(&loaded, mem);
        return status;
    }
    *out = loaded;
    return TRI_OK;
}
