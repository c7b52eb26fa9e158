/* Small files for the tests of data readers, in a folder that goes when the test ends. */
#ifndef TRIDENT_TESTS_ENGINE_FILES_H
#define TRIDENT_TESTS_ENGINE_FILES_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "engine/data/data.h"
#include "lib/test.h"
#include "os/file.h"

struct files {
    char folder[64];
    char path[512]; /* of the file written last */
};

static inline void files_begin(struct files *files)
{
    (void)snprintf(files->folder, sizeof files->folder, "/tmp/trident-data-XXXXXX");
    assert_non_null(mkdtemp(files->folder));
}

static inline tri_status files_remove(void *ctx, const char *name)
{
    struct files *files = ctx;
    (void)snprintf(files->path, sizeof files->path, "%s/%s", files->folder, name);
    (void)unlink(files->path);
    return TRI_OK;
}

static inline void files_end(struct files *files)
{
    assert_int_equal(file_each(files->folder, "", &mem_libc, files_remove, files, NULL), TRI_OK);
    assert_int_equal(rmdir(files->folder), 0);
}

/* Writes a file of the folder; as gzip if its name says so. Returns its path. */
static inline const char *files_put(struct files *files, const char *name, const void *bytes,
                                    size_t len)
{
    size_t name_len = strlen(name);
    bool packed = name_len > 3 && strcmp(name + name_len - 3, ".gz") == 0;
    (void)snprintf(files->path, sizeof files->path, "%s/%s", files->folder, name);
    gzFile file = gzopen(files->path, packed ? "wb" : "wbT");
    assert_non_null(file);
    if (len > 0)
        assert_int_equal(gzwrite(file, bytes, (unsigned)len), len);
    assert_int_equal(gzclose(file), Z_OK);
    return files->path;
}

static inline const char *files_text(struct files *files, const char *name, const char *text)
{
    return files_put(files, name, text, strlen(text));
}

/* "kind:folder/name", or "kind:folder" for NULL. */
static inline const char *files_spec(const struct files *files, const char *kind, const char *name,
                                     char out[256])
{
    (void)snprintf(out, 256, "%s:%s%s%s", kind, files->folder, name != NULL ? "/" : "",
                   name != NULL ? name : "");
    return out;
}

/* Real data: NULL if it is not there, which is said. To be freed with free(). */
static inline char *files_real(const char *name)
{
    const char *root = getenv("TRIDENT_DATA");
    char path[512];
    (void)snprintf(path, sizeof path, "%s/%s", root != NULL ? root : "../shared/data", name);
    if (access(path, R_OK) == 0)
        return strdup(path);
    print_message("skipped: there is no '%s'; set TRIDENT_DATA to a folder that has it\n", path);
    return NULL;
}

static inline void files_expect(const tri_error *err, tri_status status, const char *text,
                                const char *where)
{
    if (status != TRI_EINPUT || err->status != TRI_EINPUT || strstr(err->text, text) == NULL ||
        strstr(err->where, where) == NULL || err->next[0] == '\0')
        fail_msg("status %d, wanted '%s' at '%s', got '%s' at '%s', why '%s', next '%s'", status,
                 text, where, err->text, err->where, err->why, err->next);
}

/* data_open() must fail so. */
static inline void files_refused(const struct data_options *options, const char *text,
                                 const char *where)
{
    struct data_set *set = NULL;
    tri_error err = {0};
    tri_status status = data_open(options, &mem_libc, &set, &err);
    assert_null(set);
    files_expect(&err, status, text, where);
}

static inline struct data_set *files_open(const struct data_options *options)
{
    struct data_set *set = NULL;
    tri_error err = {0};
    if (data_open(options, &mem_libc, &set, &err) != TRI_OK)
        fail_msg("%s; %s; %s", err.text, err.where, err.why);
    return set;
}

/* An IDX file of count images of height x width or, with height 0, of labels. The values are
 * value(i), counted over the whole file. Returns its length; out has room for it. */
static inline size_t files_idx(unsigned char *out, unsigned count, unsigned height, unsigned width,
                               unsigned char (*value)(size_t i))
{
    unsigned dims = height > 0 ? 3 : 1, sizes[3] = {count, height, width};
    size_t at = 4 + (size_t)4 * dims;
    size_t values = height > 0 ? (size_t)count * height * width : count;
    out[0] = out[1] = 0;
    out[2] = 8;
    out[3] = (unsigned char)dims;
    for (unsigned d = 0; d < dims; d++)
        for (unsigned b = 0; b < 4; b++)
            out[4 + 4 * d + b] = (unsigned char)(sizes[d] >> (24 - 8 * b));
    for (size_t i = 0; i < values; i++)
        out[at + i] = value(i);
    return at + values;
}

#endif
