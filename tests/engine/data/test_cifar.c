/* engine/cifar: records of a label and an image. */
#include "engine/data/cifar.h"

#include "engine/files.h"

enum { RECORDS = 4 };

/* Records with label (first + i) % 10 and pixels that tell record and place. */
static size_t records(unsigned char *out, unsigned count, unsigned first)
{
    for (unsigned i = 0; i < count; i++) {
        unsigned char *record = out + (size_t)i * CIFAR_RECORD;
        record[0] = (unsigned char)((first + i) % CIFAR_CLASSES);
        for (unsigned k = 0; k < CIFAR_PIXELS; k++)
            record[1 + k] = (unsigned char)(k * 3 + (first + i));
    }
    return (size_t)count * CIFAR_RECORD;
}

static void check_images(const struct images *images, size_t count, bool labelled)
{
    assert_int_equal(images->count, count);
    assert_int_equal(images->shape.channels, 3);
    assert_int_equal(images->shape.height, 32);
    assert_int_equal(images->shape.width, 32);
    assert_int_equal(images->labels != NULL, labelled);
    for (size_t i = 0; i < count; i++) {
        if (images->labels != NULL)
            assert_int_equal(images->labels[i], i % 10);
        for (size_t k = 0; k < CIFAR_PIXELS; k += 97)
            assert_int_equal(images->pixels[i * CIFAR_PIXELS + k], (unsigned char)(k * 3 + i));
    }
}

TEST(all_batches_of_a_folder_are_read_in_order)
{
    (void)state;
    static unsigned char bytes[RECORDS * CIFAR_RECORD];
    struct files files;
    struct images images = {0};
    files_begin(&files);
    (void)files_put(&files, "data_batch_1.bin.gz", bytes, records(bytes, 4, 0));
    (void)files_put(&files, "data_batch_2.bin", bytes, records(bytes, 3, 4));
    (void)files_text(&files, "data_batch_2.bin.gz", "not looked at beside the plain one");
    (void)files_text(&files, "data_batch_3.txt", "not looked at");
    (void)files_put(&files, "test_batch.bin", bytes, records(bytes, 2, 0));
    assert_int_equal(cifar_load_batches(files.folder, &mem_libc, &images, NULL), TRI_OK);
    check_images(&images, 7, true);
    images_fini(&images, &mem_libc);
    files_end(&files);
}

TEST(images_without_labels_are_read_where_allowed)
{
    (void)state;
    static unsigned char bytes[RECORDS * CIFAR_RECORD], bare[RECORDS * CIFAR_PIXELS];
    struct files files;
    struct images images = {0};
    tri_error err = {0};
    files_begin(&files);
    const char *path = files_put(&files, "one.bin.gz", bytes, records(bytes, 4, 0));
    assert_int_equal(cifar_load(path, true, &mem_libc, &images, NULL), TRI_OK);
    check_images(&images, 4, true);
    images_fini(&images, &mem_libc);
    for (size_t i = 0; i < RECORDS; i++)
        memcpy(bare + i * CIFAR_PIXELS, bytes + i * CIFAR_RECORD + 1, CIFAR_PIXELS);
    path = files_put(&files, "bare.bin", bare, sizeof bare);
    assert_int_equal(cifar_load(path, true, &mem_libc, &images, NULL), TRI_OK);
    check_images(&images, 4, false);
    images_fini(&images, &mem_libc);
    files_expect(&err, cifar_load(path, false, &mem_libc, &images, &err), "no CIFAR-10 file",
                 "bare.bin, offset 9219");
    files_end(&files);
}

static void refuse(struct files *files, const char *text, const char *where)
{
    struct images images = {0};
    tri_error err = {0};
    files_expect(&err, cifar_load_batches(files->folder, &mem_libc, &images, &err), text, where);
    assert_null(images.pixels);
}

TEST(broken_batches_are_named_by_file_and_offset)
{
    (void)state;
    static unsigned char bytes[RECORDS * CIFAR_RECORD];
    struct files files;
    files_begin(&files);
    size_t len = records(bytes, 4, 0);
    (void)files_put(&files, "data_batch_1.bin", bytes, len);
    (void)files_put(&files, "data_batch_2.bin", bytes, len - 1);
    refuse(&files, "no CIFAR-10 file", "data_batch_2.bin, offset 9219");
    bytes[(size_t)2 * CIFAR_RECORD] = 10;
    (void)files_put(&files, "data_batch_2.bin", bytes, len);
    refuse(&files, "label 10 is out of range", "data_batch_2.bin, offset 6146 (image 3)");
    (void)files_put(&files, "data_batch_2.bin", bytes, 0);
    refuse(&files, "is empty", "data_batch_2.bin, offset 0");
    files_end(&files);
}

TEST(a_folder_without_batches_is_refused)
{
    (void)state;
    struct files files = {.folder = "/nowhere"};
    refuse(&files, "there is no folder '/nowhere'", "");
    files_begin(&files);
    refuse(&files, "has no data_batch_*.bin", "");
    files_end(&files);
}

TEST(names_come_from_the_folder_or_are_known)
{
    (void)state;
    struct files files;
    struct vocabulary *names = NULL;
    tri_error err = {0};
    files_begin(&files);
    assert_int_equal(cifar_names(files.folder, &mem_libc, &names, NULL), TRI_OK);
    assert_int_equal(vocabulary_size(names), 10);
    assert_string_equal(vocabulary_at(names, 9), "truck");
    vocabulary_free(names);
    (void)files_text(&files, "batches.meta.txt", "a\nb\r\n\nc\nd\ne\nf\ng\nh\ni\nten \n\n");
    assert_int_equal(cifar_names(files.folder, &mem_libc, &names, NULL), TRI_OK);
    assert_int_equal(vocabulary_size(names), 10);
    assert_string_equal(vocabulary_at(names, 1), "b");
    assert_string_equal(vocabulary_at(names, 9), "ten");
    vocabulary_free(names);
    (void)files_text(&files, "batches.meta.txt", "a\nb\na\nd\ne\nf\ng\nh\ni\nj\n");
    files_expect(&err, cifar_names(files.folder, &mem_libc, &names, &err), "10 different classes",
                 "batches.meta.txt:10");
    (void)files_text(&files, "batches.meta.txt", "a\nb");
    files_expect(&err, cifar_names(files.folder, &mem_libc, &names, &err), "10 different classes",
                 "batches.meta.txt:2");
    files_end(&files);
}

TEST(loading_survives_refused_memory)
{
    (void)state;
    static unsigned char bytes[RECORDS * CIFAR_RECORD];
    struct files files;
    struct fault fault = {0};
    files_begin(&files);
    (void)files_put(&files, "data_batch_1.bin.gz", bytes, records(bytes, 4, 0));
    (void)files_text(&files, "batches.meta.txt", "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n");
    FAULT_WALK(&fault)
    {
        struct images images = {0};
        struct vocabulary *names = NULL;
        tri_status status = cifar_load_batches(files.folder, &fault.mem, &images, NULL);
        if (status == TRI_OK)
            status = cifar_names(files.folder, &fault.mem, &names, NULL);
        assert_true(status == TRI_OK || (fault.hit && status == TRI_ENOMEM));
        images_fini(&images, &fault.mem);
        vocabulary_free(names);
    }
    assert_true(fault.run > 6);
    files_end(&files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_batches_of_a_folder_are_read_in_order),
        cmocka_unit_test(images_without_labels_are_read_where_allowed),
        cmocka_unit_test(broken_batches_are_named_by_file_and_offset),
        cmocka_unit_test(a_folder_without_batches_is_refused),
        cmocka_unit_test(names_come_from_the_folder_or_are_known),
        cmocka_unit_test(loading_survives_refused_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
