/* engine/idx and engine/gz: IDX files, plain and gzip, whole and broken. */
#include "engine/data/idx.h"

#include "engine/data/gz.h"
#include "engine/files.h"

static unsigned char counting(size_t i)
{
    return (unsigned char)(i * 7);
}

static unsigned char three(size_t i)
{
    return (unsigned char)(i % 3);
}

static unsigned char from_one(size_t i)
{
    return (unsigned char)(1 + i % 2);
}

static unsigned char with_gap(size_t i)
{
    return (unsigned char)(i == 5 ? 200 : i % 3);
}

/* Both files; returns the status of reading them. */
struct pair {
    struct files files;
    char images[512], labels[512];
};

static void put_pair(struct pair *pair, unsigned images, unsigned labels, bool packed,
                     unsigned char (*label)(size_t i))
{
    unsigned char bytes[1000];
    size_t len = files_idx(bytes, images, 4, 5, counting);
    (void)snprintf(pair->images, sizeof pair->images, "%s",
                   files_put(&pair->files, packed ? "i.gz" : "i", bytes, len));
    len = files_idx(bytes, labels, 0, 0, label);
    (void)snprintf(pair->labels, sizeof pair->labels, "%s",
                   files_put(&pair->files, packed ? "l.gz" : "l", bytes, len));
}

static tri_status load_pair(const struct pair *pair, uint32_t classes, const struct mem *mem,
                            struct images *out, tri_error *err)
{
    return idx_load(pair->images, pair->labels, classes, mem, out, err);
}

TEST(plain_and_gzip_files_hold_the_same)
{
    (void)state;
    struct pair pair;
    for (int packed = 0; packed < 2; packed++) {
        struct images images = {0};
        files_begin(&pair.files);
        put_pair(&pair, 6, 6, packed, three);
        assert_int_equal(load_pair(&pair, 0, &mem_libc, &images, NULL), TRI_OK);
        assert_int_equal(images.count, 6);
        assert_int_equal(images.classes, 3);
        assert_int_equal(images.shape.channels, 1);
        assert_int_equal(images.shape.height, 4);
        assert_int_equal(images.shape.width, 5);
        for (size_t i = 0; i < 120; i++)
            assert_int_equal(images.pixels[i], counting(i));
        for (size_t i = 0; i < 6; i++)
            assert_int_equal(images.labels[i], three(i));
        images_fini(&images, &mem_libc);
        files_end(&pair.files);
    }
}

TEST(images_need_no_labels)
{
    (void)state;
    struct pair pair;
    struct images images = {0};
    files_begin(&pair.files);
    put_pair(&pair, 6, 6, true, three);
    assert_int_equal(idx_load(pair.images, NULL, 10, &mem_libc, &images, NULL), TRI_OK);
    assert_null(images.labels);
    assert_int_equal(images.count, 6);
    images_fini(&images, &mem_libc);
    files_end(&pair.files);
}

TEST(labels_may_count_from_one)
{
    (void)state;
    struct pair pair;
    struct images images = {0};
    files_begin(&pair.files);
    put_pair(&pair, 6, 6, false, from_one);
    assert_int_equal(load_pair(&pair, 0, &mem_libc, &images, NULL), TRI_OK);
    assert_int_equal(images.classes, 3);
    images_fini(&images, &mem_libc);
    files_end(&pair.files);
}

static void refuse_pair(unsigned images, unsigned labels, unsigned char (*label)(size_t i),
                        uint32_t classes, const char *text, const char *where)
{
    struct pair pair;
    struct images out = {0};
    tri_error err = {0};
    files_begin(&pair.files);
    put_pair(&pair, images, labels, true, label);
    files_expect(&err, load_pair(&pair, classes, &mem_libc, &out, &err), text, where);
    assert_null(out.pixels);
    files_end(&pair.files);
}

TEST(labels_out_of_range_are_named_by_offset)
{
    (void)state;
    refuse_pair(8, 8, with_gap, 0, "label 200 is out of range", "l.gz, offset 13 (label 6)");
    refuse_pair(8, 8, with_gap, 10, "label 200 is out of range", "l.gz, offset 13 (label 6)");
    refuse_pair(8, 8, three, 2, "label 2 is out of range", "l.gz, offset 10 (label 3)");
}

TEST(counts_must_be_equal_and_not_zero)
{
    (void)state;
    refuse_pair(6, 5, three, 10, "5 labels for 6 images", "l.gz, offset 4");
    refuse_pair(0, 0, three, 10, "holds no images", "i.gz, offset 4");
    refuse_pair(6, 0, three, 10, "holds no labels", "l.gz, offset 4");
}

static void refuse_bytes(const unsigned char *bytes, size_t len, const char *text,
                         const char *where)
{
    unsigned char *copy = malloc(len > 0 ? len : 1);
    struct idx idx;
    tri_error err = {0};
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    files_expect(&err, idx_parse("f", copy, len, IDX_IMAGES, &idx, &err), text, where);
    free(copy);
}

TEST(what_is_no_idx_file_is_refused)
{
    (void)state;
    unsigned char bytes[1000];
    size_t len = files_idx(bytes, 6, 4, 5, counting);
    refuse_bytes(bytes, 0, "is empty", "f, offset 0");
    refuse_bytes(bytes, 3, "no IDX file of images", "f, offset 0");
    refuse_bytes(bytes, 4, "ends before its sizes", "f, offset 4");
    refuse_bytes(bytes, 15, "ends before its sizes", "f, offset 15");
    refuse_bytes(bytes, len - 1, "too short", "f, offset 135");
    refuse_bytes(bytes, len + 1, "too long", "f, offset 136");
    bytes[3] = 1;
    refuse_bytes(bytes, len, "no IDX file of images", "f, offset 0");
    bytes[3] = 3;
    bytes[11] = 0;
    refuse_bytes(bytes, len, "0 x 5", "f, offset 8");
    memset(bytes + 4, 0xFF, 12);
    refuse_bytes(bytes, len, "4294967295 x 4294967295", "f, offset 8");
    memcpy(bytes + 8, "\0\0\x10\0\0\0\x10\0", 8);
    refuse_bytes(bytes, len, "too short", "f, offset 136");
}

/* A gzip file of 1000 bytes; returns its length. */
static size_t pack(struct files *files, struct buf *out)
{
    unsigned char bytes[1000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = counting(i * i);
    buf_init(out, &mem_libc);
    assert_int_equal(file_read(files_put(files, "a.gz", bytes, sizeof bytes), SIZE_MAX, out, NULL),
                     TRI_OK);
    return out->len;
}

static void refuse_gz(const char *bytes, size_t len, const char *text, const char *where)
{
    struct buf out;
    tri_error err = {0};
    buf_init(&out, &mem_libc);
    files_expect(&err, gz_unpack("g", bytes, len, &out, &err), text, where);
    buf_fini(&out);
}

TEST(broken_gzip_files_are_named_by_offset)
{
    (void)state;
    struct files files;
    struct buf packed;
    char where[40];
    files_begin(&files);
    size_t len = pack(&files, &packed);
    for (size_t cut = 2; cut < len; cut++) {
        (void)snprintf(where, sizeof where, "g, offset %zu", cut);
        refuse_gz(packed.data, cut, "ends too early", where);
    }
    packed.data[len - 6] ^= 1; /* of the checksum */
    refuse_gz(packed.data, len, "is broken", "g, offset ");
    packed.data[len - 6] ^= 1;
    buf_text(&packed, "more");
    (void)snprintf(where, sizeof where, "g, offset %zu", len);
    refuse_gz(packed.data, packed.len, "is broken", where);
    buf_fini(&packed);
    files_end(&files);
}

TEST(gzip_files_may_have_members_and_zeros_behind)
{
    (void)state;
    struct files files;
    struct buf packed, out;
    files_begin(&files);
    size_t len = pack(&files, &packed);
    struct buf twice;
    buf_init(&twice, &mem_libc);
    buf_add(&twice, packed.data, len);
    buf_add(&twice, packed.data, len);
    buf_fill(&twice, '\0', 100);
    buf_init(&out, &mem_libc);
    assert_int_equal(gz_unpack("g", twice.data, twice.len, &out, NULL), TRI_OK);
    assert_int_equal(out.len, 2000);
    assert_memory_equal(out.data, out.data + 1000, 1000);
    buf_fini(&out);
    buf_fini(&twice);
    buf_fini(&packed);
    files_end(&files);
}

TEST(a_missing_file_and_a_folder_are_refused)
{
    (void)state;
    struct images out = {0};
    tri_error err = {0};
    files_expect(&err, idx_load("/nowhere/i", NULL, 0, &mem_libc, &out, &err), "/nowhere/i", "");
    files_expect(&err, idx_load("/tmp", NULL, 0, &mem_libc, &out, &err), "/tmp", "");
}

TEST(loading_survives_refused_memory)
{
    (void)state;
    struct pair pair;
    struct fault fault = {0};
    files_begin(&pair.files);
    put_pair(&pair, 6, 6, true, three);
    FAULT_WALK(&fault)
    {
        struct images images = {0};
        tri_status status = load_pair(&pair, 0, &fault.mem, &images, NULL);
        /* refusing to shrink is no failure */
        assert_true(status == TRI_OK || (fault.hit && status == TRI_ENOMEM));
        images_fini(&images, &fault.mem);
    }
    assert_true(fault.run > 6);
    files_end(&pair.files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_and_gzip_files_hold_the_same),
        cmocka_unit_test(images_need_no_labels),
        cmocka_unit_test(labels_may_count_from_one),
        cmocka_unit_test(labels_out_of_range_are_named_by_offset),
        cmocka_unit_test(counts_must_be_equal_and_not_zero),
        cmocka_unit_test(what_is_no_idx_file_is_refused),
        cmocka_unit_test(broken_gzip_files_are_named_by_offset),
        cmocka_unit_test(gzip_files_may_have_members_and_zeros_behind),
        cmocka_unit_test(a_missing_file_and_a_folder_are_refused),
        cmocka_unit_test(loading_survives_refused_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
