/* Making profiles and books. */
#include "lib/books.h"

#include <stdio.h>
#include <string.h>

#include "lib/test.h"
#include "os/file.h"

static struct profile *must_read(const char *name, const char *text, size_t len)
{
    struct profile *profile = NULL;
    tri_error err = {0};
    if (profile_read(name, text, len, &mem_libc, &profile, &err) != TRI_OK)
        fail_msg("%s: %s (%s)", name, err.text, err.where);
    return profile;
}

struct profile *book_one_layer(const char *kind, unsigned rows, unsigned cols, unsigned bias)
{
    char text[300];
    (void)snprintf(text, sizeof text,
                   "{\"format\": \"layer-profile/1\", \"name\": \"one\", \"layers\": [{\"name\": "
                   "\"l\", \"type\": \"%s\", \"M\": %u, \"N\": %u, \"bias\": %u}]}",
                   kind, rows, cols, bias);
    return must_read("one", text, strlen(text));
}

struct profile *book_model(const char *name)
{
    char path[200];
    struct buf text;
    tri_error err = {0};
    (void)snprintf(path, sizeof path, "models/%s.json", name);
    buf_init(&text, &mem_libc);
    if (file_read(path, 1 << 24, &text, &err) != TRI_OK)
        fail_msg("%s", err.text);
    struct profile *profile = must_read(path, text.data, text.len);
    buf_fini(&text);
    return profile;
}

size_t book_scheme_index(const char *name)
{
    size_t i = 0;
    assert_non_null(scheme_find(name, &i));
    return i;
}

uint32_t book_scheme(const char *name)
{
    return UINT32_C(1) << book_scheme_index(name);
}

struct book book_of(const struct profile *profile, unsigned workers)
{
    return (struct book){
        .profile = profile,
        .workers = workers,
        .servers = workers,
        .colocated = workers,
        .batch = 32,
        .bits_s = 1e10,
        .flops_s = 1e12,
        .rule = PLAN_TIME,
        .schemes = UINT32_MAX,
        .placement = placement_find("hash"),
        .reproducible = true,
    };
}

struct plan *book_plan(const struct book *book)
{
    struct plan *plan = NULL;
    tri_error err = {0};
    if (plan_make(book, &mem_libc, &plan, &err) != TRI_OK)
        fail_msg("%s: %s", err.text, err.why);
    return plan;
}
