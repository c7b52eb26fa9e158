/* Heads of safetensors files: their bytes, and what any other bytes are refused for. */
#include "wire/safetensors.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/test.h"
#include "wire/bytes.h"

/* ---- a file from the text of its header ---- */

struct file {
    uint8_t *bytes;
    size_t len;
};

/* Exactly as long as it says, so that a sanitizer guards its end. */
static struct file file_of(const char *header, size_t data_bytes)
{
    size_t len = strlen(header);
    struct file file = {.len = 8 + len + data_bytes};
    file.bytes = calloc(1, file.len);
    assert_non_null(file.bytes);
    wire_store_u64(file.bytes, len);
    memcpy(file.bytes + 8, header, len);
    return file;
}

static tri_status read_bytes(const void *bytes, size_t len, struct safetensors **out,
                             tri_error *err)
{
    const struct safetensors_source source = {
        .path = "x.safetensors", .bytes = bytes, .len = len, .file_bytes = len};
    return safetensors_read(&source, &mem_libc, out, err);
}

static struct safetensors *reads(const char *header, size_t data_bytes)
{
    struct safetensors *what = NULL;
    tri_error err = {0};
    struct file file = file_of(header, data_bytes);
    if (read_bytes(file.bytes, file.len, &what, &err) != TRI_OK)
        fail_msg("%s: %s", header, err.text);
    assert_int_equal(err.status, TRI_OK);
    free(file.bytes);
    return what;
}

static void refuses(const char *header, size_t data_bytes, const char *text)
{
    struct safetensors *what = NULL;
    tri_error err = {0};
    struct file file = file_of(header, data_bytes);
    assert_int_equal(read_bytes(file.bytes, file.len, &what, &err), TRI_EINPUT);
    assert_null(what);
    if (strstr(err.text, text) == NULL)
        fail_msg("%s: '%s' and not '%s'", header, err.text, text);
    assert_memory_equal(err.where, "x.safetensors", 13);
    assert_true(err.next[0] != '\0');
    free(file.bytes);
}

/* ---- writing ---- */

static struct safetensors_tensor some[] = {
    {.name = "fc.weight", .dtype = SAFETENSORS_F32, .dims = 2, .shape = {2, 3}},
    {.name = "fc.bias", .dtype = SAFETENSORS_F32, .dims = 1, .shape = {2}},
    {.name = "clock", .dtype = SAFETENSORS_U64},
};

TEST(a_header_is_these_bytes)
{
    (void)state;
    struct safetensors_text texts[] = {{"format", "a \"b\""}};
    const struct safetensors what = {.count = 3, .tensors = some, .text_count = 1, .texts = texts};
    static const char text[] =
        "{\"__metadata__\": {\"format\": \"a \\\"b\\\"\"}, "
        "\"fc.weight\": {\"dtype\": \"F32\", \"shape\": [2, 3], \"data_offsets\": [0, 24]}, "
        "\"fc.bias\": {\"dtype\": \"F32\", \"shape\": [2], \"data_offsets\": [24, 32]}, "
        "\"clock\": {\"dtype\": \"U64\", \"shape\": [], \"data_offsets\": [32, 40]}}";
    struct buf out;
    buf_init(&out, &mem_libc);
    buf_text(&out, "before"); /* it is appended, and padded by itself */
    assert_int_equal(safetensors_write(&what, &out, NULL), TRI_OK);
    size_t padded = (sizeof text - 1 + 7) / 8 * 8;
    assert_int_equal(out.len, 6 + 8 + padded);
    assert_int_equal(wire_load_u64((uint8_t *)out.data + 6), padded);
    assert_memory_equal(out.data + 14, text, sizeof text - 1);
    for (size_t i = sizeof text - 1; i < padded; i++)
        assert_int_equal(out.data[14 + i], ' ');
    buf_fini(&out);
}

TEST(headers_of_all_lengths_are_padded_to_eight)
{
    (void)state;
    char name[20] = "";
    for (size_t len = 1; len < 18; len++) {
        name[len - 1] = 'n';
        struct safetensors_tensor one = {.name = name, .dtype = SAFETENSORS_U8};
        const struct safetensors what = {.count = 1, .tensors = &one};
        struct buf out;
        buf_init(&out, &mem_libc);
        assert_int_equal(safetensors_write(&what, &out, NULL), TRI_OK);
        assert_int_equal(out.len % 8, 0);
        assert_int_equal(wire_load_u64((uint8_t *)out.data), out.len - 8);
        assert_null(memchr(out.data + 8, '\n', out.len - 8));
        buf_fini(&out);
    }
}

TEST(what_is_written_is_read)
{
    (void)state;
    char longest[300];
    memset(longest, 'l', sizeof longest - 1); /* longer than the keys of our other files */
    longest[sizeof longest - 1] = '\0';
    struct safetensors_tensor tensors[] = {
        {.name = longest, .dtype = SAFETENSORS_F64, .dims = 8, .shape = {1, 2, 1, 2, 1, 2, 1, 2}},
        {.name = "Gr\xc3\xb6\xc3\x9f"
                 "e\n\"",
         .dtype = SAFETENSORS_I64,
         .dims = 1,
         .shape = {3}},
        {.name = "none", .dtype = SAFETENSORS_I32, .dims = 3, .shape = {5, 0, 7}},
        {.name = "bytes", .dtype = SAFETENSORS_U8, .dims = 1, .shape = {5}},
    };
    struct safetensors_text texts[] = {{longest, "long"}, {"", "empty"}, {"k", ""}};
    const struct safetensors what = {
        .count = 4, .tensors = tensors, .text_count = 3, .texts = texts};
    static const uint64_t bytes[] = {128, 24, 0, 5}, offsets[] = {0, 128, 152, 152};
    struct buf out;
    struct safetensors *read = NULL;
    buf_init(&out, &mem_libc);
    assert_int_equal(safetensors_write(&what, &out, NULL), TRI_OK);
    size_t head = out.len;
    buf_fill(&out, 'd', 157);
    assert_int_equal(read_bytes(out.data, out.len, &read, NULL), TRI_OK);
    buf_fini(&out); /* nothing is borrowed */
    assert_int_equal(read->count, 4);
    assert_int_equal(read->head_bytes, head);
    assert_int_equal(read->data_bytes, 157);
    for (size_t i = 0; i < 4; i++) {
        const struct safetensors_tensor *tensor = safetensors_find(read, tensors[i].name);
        assert_non_null(tensor);
        assert_int_equal(tensor->dtype, tensors[i].dtype);
        assert_string_equal(tensor->dtype_name, safetensors_dtype_name(tensors[i].dtype));
        assert_int_equal(tensor->dims, tensors[i].dims);
        assert_memory_equal(tensor->shape, tensors[i].shape, sizeof tensor->shape);
        assert_int_equal(tensor->bytes, bytes[i]);
        assert_int_equal(tensor->offset, offsets[i]);
    }
    assert_int_equal(read->text_count, 3);
    assert_string_equal(safetensors_text(read, longest), "long");
    assert_string_equal(safetensors_text(read, ""), "empty");
    assert_string_equal(safetensors_text(read, "k"), "");
    assert_null(safetensors_text(read, "l"));
    assert_null(safetensors_find(read, "bytes2"));
    safetensors_free(read, &mem_libc);
}

TEST(what_no_reader_could_take_is_not_written)
{
    (void)state;
    static const char *const names[] = {"", "__metadata__", "bad \xff", "fc.weight"};
    for (size_t i = 0; i < 4; i++) {
        struct safetensors_tensor two[] = {some[0], some[1]};
        two[1].name = names[i];
        const struct safetensors what = {.count = 2, .tensors = two};
        struct buf out;
        buf_init(&out, &mem_libc);
        assert_int_equal(safetensors_write(&what, &out, NULL), TRI_EARG);
        buf_fini(&out);
    }
    struct safetensors_tensor bad[] = {
        {.name = "a",
         .dtype = SAFETENSORS_U8,
         .dims = 2,
         .shape = {UINT64_C(1) << 32, UINT64_C(1) << 32}},
        {.name = "a", .dtype = SAFETENSORS_OTHER},
        {.name = "a", .dims = 9},
    };
    for (size_t i = 0; i < 3; i++) {
        const struct safetensors what = {.count = 1, .tensors = &bad[i]};
        struct buf out;
        tri_error err = {0};
        buf_init(&out, &mem_libc);
        assert_int_equal(safetensors_write(&what, &out, &err), TRI_EARG);
        assert_string_equal(err.text, "tensor 'a' has no possible size");
        buf_fini(&out);
    }
    struct safetensors_tensor halves[] = {
        {.name = "a", .dtype = SAFETENSORS_U8, .dims = 1, .shape = {UINT64_C(1) << 62}},
        {.name = "b", .dtype = SAFETENSORS_U8, .dims = 1, .shape = {UINT64_C(1) << 62}},
    };
    const struct safetensors both = {.count = 2, .tensors = halves};
    struct buf out;
    buf_init(&out, &mem_libc);
    assert_int_equal(safetensors_write(&both, &out, NULL), TRI_EARG);
    buf_fini(&out);
}

/* ---- reading ---- */

#define T(name, dtype, shape, offsets)                                                             \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

TEST(a_file_without_tensors_is_read)
{
    (void)state;
    static const char *const headers[] = {"{}", "{}      ", "{\"__metadata__\":{}}"};
    for (size_t i = 0; i < 3; i++) {
        struct safetensors *what = reads(headers[i], 0);
        assert_int_equal(what->count + what->text_count, 0);
        safetensors_free(what, &mem_libc);
    }
}

TEST(tensors_come_in_the_order_of_their_data)
{
    (void)state;
    struct safetensors *what =
        reads("{" T("b", "U8", "[3]", "[2,5]") "," T("a", "U8", "[2]", "[0,2]") "}", 5);
    assert_string_equal(what->tensors[0].name, "a");
    assert_string_equal(what->tensors[1].name, "b");
    safetensors_free(what, &mem_libc);
}

TEST(a_dtype_that_is_not_known_is_kept_by_name)
{
    (void)state;
    struct safetensors *what = reads("{" T("a", "BF16", "[3]", "[0,6]") "}", 6);
    assert_int_equal(what->tensors[0].dtype, SAFETENSORS_OTHER);
    assert_string_equal(what->tensors[0].dtype_name, "BF16");
    assert_int_equal(what->tensors[0].bytes, 6);
    safetensors_free(what, &mem_libc);
}

TEST(keys_that_are_not_known_are_passed_over)
{
    (void)state;
    struct safetensors *what = reads("{\"a\":{\"new\":[{}],\"shape\":[1],\"dtype\":\"F32\","
                                     "\"data_offsets\":[0,4]}}",
                                     4);
    assert_int_equal(what->count, 1);
    safetensors_free(what, &mem_libc);
}

TEST(tensors_that_do_not_fit_the_data_are_refused_by_name)
{
    (void)state;
    refuses("{" T("w", "F32", "[2]", "[0,8]") "}", 7, "tensor 'w' ends behind the end");
    refuses("{" T("w", "F32", "[2]", "[0,8]") "}", 9, "1 bytes at the end belong to no tensor");
    refuses("{" T("w", "F32", "[2]", "[4,12]") "}", 12, "tensor 'w' has a gap before");
    refuses("{" T("a", "U8", "[3]", "[0,3]") "," T("w", "U8", "[3]", "[2,5]") "}", 5,
            "tensor 'w' overlaps");
    refuses("{" T("a", "U8", "[3]", "[0,3]") "," T("w", "U8", "[3]", "[0,3]") "}", 3,
            "tensor 'w' overlaps");
    refuses("{" T("a", "U8", "[3]", "[0,3]") "," T("w", "U8", "[1]", "[4,5]") "}", 5,
            "tensor 'w' has a gap");
    refuses("{" T("w", "F32", "[3]", "[0,8]") "}", 8, "tensor 'w' has 8 bytes");
    refuses("{" T("w", "U64", "[]", "[0,4]") "}", 4, "tensor 'w' has 4 bytes");
    refuses("{" T("w", "F32", "[4294967296,4294967296]", "[0,0]") "}", 0, "tensor 'w' has 0 bytes");
    refuses("{" T("w", "U8", "[3]", "[0,3]") "," T("w", "U8", "[3]", "[3,6]") "}", 6,
            "tensor 'w' is there twice");
    refuses("{" T("w", "F32", "[0]", "[9223372036854775807,9223372036854775807]") "}", 0,
            "tensor 'w' ends behind");
}

TEST(headers_that_are_none_are_refused_with_their_place)
{
    (void)state;
    refuses("", 0, "the text ends");
    refuses("[]", 0, "found '['");
    refuses("{} x", 0, "more text");
    refuses("{\"w\":3}", 0, "an object");
    refuses("{\"\":{}}", 0, "a tensor has no name");
    refuses("{\"w\":{}}", 0, "tensor 'w' has no dtype");
    refuses("{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,0]}}", 0, "tensor 'w' has no shape");
    refuses("{\"w\":{\"dtype\":\"F32\",\"shape\":[0]}}", 0, "tensor 'w' has no data_offsets");
    refuses("{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", 0, "tensor 'w' has a key twice");
    refuses("{\"w\":{\"shape\":[1],\"shape\":[1]}}", 0, "tensor 'w' has a key twice");
    refuses("{" T("w", "F32", "[1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, "more than 8 dimensions");
    refuses("{" T("w", "F32", "[-1]", "[0,4]") "}", 4, "-1 is not between");
    refuses("{" T("w", "F32", "[1.5]", "[0,4]") "}", 4, "not a whole number");
    refuses("{" T("w", "F32", "[1]", "[4,0]") "}", 4, "not a beginning and an end");
    refuses("{" T("w", "F32", "[1]", "[4]") "}", 4, "not a beginning and an end");
    refuses("{" T("w", "F32", "[1]", "[0,4,8]") "}", 4, "not a beginning and an end");
    refuses("{\"__metadata__\":{\"a\":1}}", 0, "a string");
    refuses("{\"__metadata__\":{},\"__metadata__\":{}}", 0, "'__metadata__' is there twice");
    refuses("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0,
            "'a' of '__metadata__' is there twice");
}

TEST(files_that_are_too_short_or_promise_too_much_are_refused)
{
    (void)state;
    struct safetensors *what = NULL;
    tri_error err = {0};
    uint8_t bytes[16] = {0};
    assert_int_equal(read_bytes(bytes, 0, &what, &err), TRI_EINPUT);
    assert_int_equal(read_bytes(bytes, 7, &what, &err), TRI_EINPUT);
    assert_string_equal(err.text, "'x.safetensors' is not a file of tensors");
    assert_string_equal(err.why, "it is shorter than the 8 bytes that such a file begins with");
    bytes[0] = 9;
    assert_int_equal(read_bytes(bytes, 16, &what, &err), TRI_EINPUT);
    assert_string_equal(err.why, "it ends before its header does");
    wire_store_u64(bytes, SAFETENSORS_MAX_HEADER + 1);
    assert_int_equal(read_bytes(bytes, 16, &what, &err), TRI_EINPUT);
    assert_string_equal(err.why, "its first 8 bytes promise a header of more than 100 MB");
    wire_store_u64(bytes, UINT64_MAX);
    assert_int_equal(read_bytes(bytes, 16, &what, &err), TRI_EINPUT);
    assert_null(what);
}

TEST(the_head_alone_is_enough)
{
    (void)state;
    struct file file = file_of("{" T("w", "F32", "[25]", "[0,100]") "}", 0);
    struct safetensors_source source = {
        .path = "x", .bytes = file.bytes, .len = 8, .file_bytes = file.len + 100};
    struct safetensors *what = NULL;
    uint64_t header = 0;
    assert_int_equal(safetensors_header_bytes(&source, &header, NULL), TRI_OK);
    assert_int_equal(header, file.len - 8);
    assert_int_equal(safetensors_read(&source, &mem_libc, &what, NULL), TRI_EARG);
    source.len = file.len;
    assert_int_equal(safetensors_read(&source, &mem_libc, &what, NULL), TRI_OK);
    assert_int_equal(what->tensors[0].bytes, 100);
    safetensors_free(what, &mem_libc);
    free(file.bytes);
}

/* ---- memory ---- */

TEST(refused_memory_is_told_and_nothing_leaks)
{
    (void)state;
    struct safetensors_text texts[] = {{"key", "value"}};
    const struct safetensors what = {.count = 3, .tensors = some, .text_count = 1, .texts = texts};
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct buf out;
        struct safetensors *read = NULL;
        tri_error err = {0};
        buf_init(&out, &fault.mem);
        tri_status status = safetensors_write(&what, &out, &err);
        size_t head = out.len;
        if (status == TRI_OK) {
            const struct safetensors_source source = {
                .path = "x", .bytes = out.data, .len = head, .file_bytes = head + 40};
            status = safetensors_read(&source, &fault.mem, &read, &err);
        }
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        assert_int_equal(err.status, status);
        safetensors_free(read, &fault.mem);
        buf_fini(&out);
    }
    assert_true(fault.run > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_is_these_bytes),
        cmocka_unit_test(headers_of_all_lengths_are_padded_to_eight),
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(what_no_reader_could_take_is_not_written),
        cmocka_unit_test(a_file_without_tensors_is_read),
        cmocka_unit_test(tensors_come_in_the_order_of_their_data),
        cmocka_unit_test(a_dtype_that_is_not_known_is_kept_by_name),
        cmocka_unit_test(keys_that_are_not_known_are_passed_over),
        cmocka_unit_test(tensors_that_do_not_fit_the_data_are_refused_by_name),
        cmocka_unit_test(headers_that_are_none_are_refused_with_their_place),
        cmocka_unit_test(files_that_are_too_short_or_promise_too_much_are_refused),
        cmocka_unit_test(the_head_alone_is_enough),
        cmocka_unit_test(refused_memory_is_told_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
