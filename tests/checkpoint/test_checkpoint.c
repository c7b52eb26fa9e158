/* checkpoint/checkpoint: what is saved comes back bit by bit, whatever is damaged is refused, and
 * nothing that fails costs a checkpoint that was there. */
#include "checkpoint/checkpoint.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crc32c.h"
#include "checkpoint/inside.h"
#include "lib/test.h"
#include "os/file.h"
#include "wire/bytes.h"

/* ---- the folder ---- */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/trident-checkpoint-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

/* Calls visit on every entry; returns how many there are. */
static size_t each_entry(void (*visit)(const char *path))
{
    size_t count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[400];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (visit != NULL)
            visit(path);
        count++;
    }
    closedir(dir);
    return count;
}

static void discard(const char *path)
{
    (void)remove(path);
}

static int remove_folder(void **state)
{
    (void)state;
    (void)each_entry(discard);
    return rmdir(folder);
}

/* A path in the folder, good until the next call but one. */
static const char *at(const char *name)
{
    static char paths[2][400];
    static unsigned turn;
    char *path = paths[++turn % 2];
    (void)snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static const char *at_clock(uint64_t clock)
{
    char name[CHECKPOINT_NAME];
    checkpoint_name(clock, name);
    return at(name);
}

static void get(const char *path, struct buf *out)
{
    tri_error err = {0};
    buf_init(out, &mem_libc);
    if (file_read(path, 1 << 28, out, &err) != TRI_OK)
        fail_msg("%s", err.text);
}

static void put(const char *path, const void *bytes, size_t len)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
}

static bool is_there(const char *path)
{
    return access(path, F_OK) == 0;
}

/* ---- a job's state ---- */

enum { LAYERS = 3, MOST_FLOATS = 64 };

struct sample {
    struct checkpoint what;
    struct checkpoint_layer layers[LAYERS];
    struct checkpoint_kept kept[3];
    float values[LAYERS][1 + CHECKPOINT_STATES][MOST_FLOATS];
    float means[5];
    uint64_t position[2], seed;
};

/* Patterns that arithmetic would not leave alone: NaNs with a payload, -0, denormals, infinity. */
static uint32_t odd_bits(uint32_t i)
{
    static const uint32_t some[] = {0x7fc01234, 0xffa00001, 0x80000000, 0x00000001,
                                    0x807fffff, 0x7f800000, 0x3f800000, 0xff800000};
    return i % 3 == 0 ? some[i / 3 % 8] : i * 2654435761U;
}

static void fill(float *floats, uint32_t count, uint32_t seed)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t bits = odd_bits(i + 7 * seed);
        memcpy(&floats[i], &bits, sizeof bits);
    }
}

static void make_sample(struct sample *s, uint64_t clock, uint32_t states)
{
    memset(s, 0, sizeof *s);
    s->layers[0] = (struct checkpoint_layer){.name = "conv", .rows = 3, .cols = 5, .bias = true};
    s->layers[1] = (struct checkpoint_layer){.name = "fc/1 \"x\"", .rows = 1, .cols = 1};
    s->layers[2] = (struct checkpoint_layer){.name = "last", .rows = 7, .cols = 2, .bias = true};
    for (uint32_t i = 0; i < LAYERS; i++) {
        s->layers[i].steps = clock + i;
        s->layers[i].values = s->values[i][0];
        for (uint32_t n = 0; n <= states; n++)
            fill(s->values[i][n], MOST_FLOATS, 10 * i + n + (uint32_t)clock);
        for (uint32_t n = 0; n < states; n++)
            s->layers[i].state[n] = s->values[i][n + 1];
    }
    fill(s->means, 5, 77);
    s->position[0] = UINT64_MAX - 1;
    s->position[1] = 1;
    s->seed = UINT64_C(0x8000000000000001);
    s->kept[0] = (struct checkpoint_kept){"data.position", TRI_U64, 2, s->position};
    s->kept[1] = (struct checkpoint_kept){"norm.means", TRI_F32, 5, s->means};
    s->kept[2] = (struct checkpoint_kept){"seed", TRI_U64, 1, &s->seed};
    s->what = (struct checkpoint){.clock = clock,
                                  .job = "night \xc3\xbc",
                                  .optimizer = "adam:0.9,0.999",
                                  .states = states,
                                  .layer_count = LAYERS,
                                  .kept_count = 3,
                                  .layers = s->layers,
                                  .kept = s->kept};
}

static uint32_t floats_of(const struct checkpoint_layer *layer)
{
    return layer->rows * (layer->cols + (layer->bias ? 1 : 0));
}

static void equal(const struct checkpoint *a, const struct checkpoint *b)
{
    assert_int_equal(a->clock, b->clock);
    assert_string_equal(a->job, b->job);
    assert_string_equal(a->optimizer, b->optimizer);
    assert_int_equal(a->states, b->states);
    assert_int_equal(a->layer_count, b->layer_count);
    assert_int_equal(a->kept_count, b->kept_count);
    for (uint32_t i = 0; i < a->layer_count; i++) {
        const struct checkpoint_layer *x = &a->layers[i], *y = &b->layers[i];
        assert_string_equal(x->name, y->name);
        assert_true(x->rows == y->rows && x->cols == y->cols && x->bias == y->bias);
        assert_int_equal(x->steps, y->steps);
        assert_memory_equal(x->values, y->values, floats_of(x) * sizeof(float));
        for (uint32_t s = 0; s < a->states; s++)
            assert_memory_equal(x->state[s], y->state[s], floats_of(x) * sizeof(float));
    }
    for (uint32_t i = 0; i < a->kept_count; i++) {
        const struct checkpoint_kept *x = &a->kept[i], *y = &b->kept[i];
        assert_string_equal(x->name, y->name);
        assert_true(x->type == y->type && x->count == y->count);
        assert_memory_equal(x->values, y->values,
                            x->count * (x->type == TRI_U64 ? sizeof(uint64_t) : sizeof(float)));
    }
}

static void save(const struct checkpoint *what)
{
    tri_error err = {0};
    if (checkpoint_write(folder, what, &mem_libc, NULL, &err) != TRI_OK)
        fail_msg("%s: %s", err.text, err.why);
}

static void save_clock(uint64_t clock)
{
    struct sample s;
    make_sample(&s, clock, 1);
    save(&s.what);
}

static void comes_back(const char *path, const struct checkpoint *what)
{
    struct checkpoint *read = NULL;
    tri_error err = {0};
    if (checkpoint_read(path, &mem_libc, &read, &err) != TRI_OK)
        fail_msg("%s: %s", err.text, err.why);
    assert_int_equal(err.status, TRI_OK);
    equal(what, read);
    checkpoint_free(read, &mem_libc);
    assert_int_equal(checkpoint_verify(path, &mem_libc, &err), TRI_OK);
}

/* ---- there and back ---- */

TEST(what_is_written_is_read_bit_by_bit)
{
    (void)state;
    for (uint32_t states = 0; states <= CHECKPOINT_STATES; states++) {
        struct sample s;
        make_sample(&s, 100 + states, states);
        save(&s.what);
        comes_back(at_clock(100 + states), &s.what);
    }
    assert_int_equal(each_entry(NULL), 1 + CHECKPOINT_STATES);
}

TEST(layers_without_bias_and_jobs_that_keep_nothing_come_back)
{
    (void)state;
    struct sample s;
    make_sample(&s, 1, 2);
    s.what.kept_count = 0;
    s.what.kept = NULL;
    for (uint32_t i = 0; i < LAYERS; i++)
        s.layers[i].bias = false;
    save(&s.what);
    comes_back(at_clock(1), &s.what);
    make_sample(&s, 2, 0);
    s.what.layer_count = 0;
    save(&s.what);
    comes_back(at_clock(2), &s.what);
    s.what.clock = 3;
    s.what.kept_count = 0;
    save(&s.what); /* nothing but a clock */
    comes_back(at_clock(3), &s.what);
}

TEST(large_clocks_and_values_of_many_pieces_come_back)
{
    (void)state;
    enum { ROWS = 700, COLS = 1001 };
    struct sample s;
    make_sample(&s, UINT64_MAX, 1);
    uint32_t count = ROWS * COLS;
    float *many = malloc(2 * sizeof(float) * count);
    assert_non_null(many);
    fill(many, 2 * count, 5);
    s.layers[0] = (struct checkpoint_layer){.name = "big",
                                            .rows = ROWS,
                                            .cols = COLS,
                                            .steps = UINT64_MAX,
                                            .values = many,
                                            .state = {many + count}};
    save(&s.what);
    assert_true(is_there(at("clock-18446744073709551615.safetensors")));
    comes_back(at_clock(UINT64_MAX), &s.what);
    free(many);
}

TEST(the_path_is_told_and_the_folder_is_made)
{
    (void)state;
    struct sample s;
    struct buf path;
    char below[100], text[200];
    tri_error err = {0};
    make_sample(&s, 12, 1);
    (void)snprintf(below, sizeof below, "%s/new", folder);
    buf_init(&path, &mem_libc);
    buf_text(&path, "at ");
    assert_int_equal(checkpoint_write(below, &s.what, &mem_libc, &path, &err), TRI_OK);
    (void)snprintf(text, sizeof text, "at %s/clock-000000000012.safetensors", below);
    assert_string_equal(buf_string(&path), text);
    comes_back(buf_string(&path) + 3, &s.what);
    discard(buf_string(&path) + 3);
    (void)snprintf(below, sizeof below, "/proc/no/parent");
    assert_int_equal(checkpoint_write(below, &s.what, &mem_libc, &path, &err), TRI_EINPUT);
    assert_string_equal(buf_string(&path), text);
    buf_fini(&path);
}

TEST(any_reader_of_safetensors_finds_the_tensors)
{
    (void)state;
    struct sample s;
    struct checkpoint *read = NULL;
    make_sample(&s, 5, 2);
    save(&s.what);
    assert_int_equal(checkpoint_describe(at_clock(5), &mem_libc, &read, NULL), TRI_OK);
    assert_null(read->layers[0].values);
    const struct safetensors *list = checkpoint_tensors(read);
    static const char *const names[] = {"data.position",
                                        "seed",
                                        "conv.weight",
                                        "conv.bias",
                                        "fc/1 \"x\".weight",
                                        "last.weight",
                                        "last.bias",
                                        "optim.0.conv.weight",
                                        "optim.0.conv.bias",
                                        "optim.0.fc/1 \"x\".weight",
                                        "optim.0.last.weight",
                                        "optim.0.last.bias",
                                        "optim.1.conv.weight",
                                        "optim.1.conv.bias",
                                        "optim.1.fc/1 \"x\".weight",
                                        "optim.1.last.weight",
                                        "optim.1.last.bias",
                                        "norm.means"};
    assert_int_equal(list->count, sizeof names / sizeof names[0]);
    assert_int_equal(list->head_bytes % 8, 0);
    for (size_t i = 0; i < list->count; i++) {
        assert_string_equal(list->tensors[i].name, names[i]);
        uint64_t size = list->tensors[i].dtype == SAFETENSORS_U64 ? 8 : 4;
        assert_int_equal(list->tensors[i].offset % size, 0);
    }
    assert_string_equal(safetensors_text(list, "format"), "trident.checkpoint.1");
    assert_string_equal(safetensors_text(list, "clock"), "5");
    assert_string_equal(safetensors_text(list, "steps.last"), "7");
    assert_string_equal(safetensors_text(list, "library"), tri_version());
    struct buf bytes;
    char sum[16];
    get(at_clock(5), &bytes);
    (void)snprintf(sum, sizeof sum, "%08x",
                   (unsigned)crc32c(0, bytes.data + list->head_bytes, (size_t)list->data_bytes));
    assert_string_equal(safetensors_text(list, "crc32c"), sum);
    buf_fini(&bytes);
    checkpoint_free(read, &mem_libc);
}

TEST(what_could_not_be_read_again_is_not_written)
{
    (void)state;
    struct sample s;
    tri_error err = {0};
    make_sample(&s, 1, 1);
    s.kept[1].name = "last.bias";
    assert_int_equal(checkpoint_write(folder, &s.what, &mem_libc, NULL, &err), TRI_EARG);
    assert_string_equal(err.text, "'last.bias', which is to be kept, is called as layer 'last' is");
    s.kept[1].name = "optim.0.conv.weight";
    assert_int_equal(checkpoint_write(folder, &s.what, &mem_libc, NULL, &err), TRI_EARG);
    s.kept[1].name = "seed";
    assert_int_equal(checkpoint_write(folder, &s.what, &mem_libc, NULL, &err), TRI_EARG);
    s.kept[1].name = "fine";
    s.kept[1].count = 0;
    assert_int_equal(checkpoint_write(folder, &s.what, &mem_libc, NULL, &err), TRI_EARG);
    s.kept[1].count = 5;
    s.layers[1].name = "conv";
    assert_int_equal(checkpoint_write(folder, &s.what, &mem_libc, NULL, &err), TRI_EARG);
    s.layers[1].name = "fc";
    s.layers[1].cols = 0;
    assert_int_equal(checkpoint_write(folder, &s.what, &mem_libc, NULL, &err), TRI_EARG);
    s.layers[1].cols = 1;
    s.layers[1].state[0] = NULL;
    assert_int_equal(checkpoint_write(folder, &s.what, &mem_libc, NULL, &err), TRI_EARG);
    s.what.states = CHECKPOINT_STATES + 1;
    assert_int_equal(checkpoint_write(folder, &s.what, &mem_libc, NULL, &err), TRI_EARG);
    assert_int_equal(each_entry(NULL), 0);
}

/* ---- damage ---- */

static void refuses(const char *path, tri_error *err)
{
    struct checkpoint *read = NULL;
    tri_error again = {0};
    *err = (tri_error){0};
    assert_int_equal(checkpoint_read(path, &mem_libc, &read, err), TRI_EINPUT);
    assert_null(read);
    assert_int_equal(err->status, TRI_EINPUT);
    assert_non_null(strstr(err->text, path));
    assert_true(err->why[0] != '\0' && err->next[0] != '\0' && err->where[0] != '\0');
    assert_int_equal(checkpoint_verify(path, &mem_libc, &again), TRI_EINPUT);
    assert_string_equal(err->text, again.text);
    assert_string_equal(err->why, again.why);
}

/* The smallest that has everything. */
static void make_small(struct sample *s, struct buf *bytes)
{
    make_sample(s, 9, 1);
    s->what.layer_count = 1;
    s->layers[0].rows = 2;
    s->layers[0].cols = 1;
    s->kept[1].count = 1;
    s->what.kept_count = 2;
    save(&s->what);
    get(at_clock(9), bytes);
}

TEST(every_length_but_the_whole_is_refused)
{
    (void)state;
    struct sample s;
    struct buf bytes;
    tri_error err;
    make_small(&s, &bytes);
    for (size_t len = bytes.len; len-- > 0;) {
        assert_int_equal(truncate(at_clock(9), (off_t)len), 0);
        refuses(at_clock(9), &err);
    }
    put(at_clock(9), bytes.data, bytes.len);
    comes_back(at_clock(9), &s.what);
    buf_char(&bytes, '\0');
    put(at_clock(9), bytes.data, bytes.len);
    refuses(at_clock(9), &err);
    buf_fini(&bytes);
}

TEST(every_bit_that_is_flipped_is_noticed)
{
    (void)state;
    struct sample s;
    struct buf bytes;
    tri_error err;
    make_small(&s, &bytes);
    int fd = open(at_clock(9), O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    for (size_t bit = 0; bit < 8 * bytes.len; bit++) {
        off_t byte = (off_t)(bit / 8);
        char flipped = (char)(bytes.data[byte] ^ (1 << bit % 8));
        assert_int_equal(pwrite(fd, &flipped, 1, byte), 1);
        refuses(at_clock(9), &err);
        assert_int_equal(pwrite(fd, &bytes.data[byte], 1, byte), 1);
    }
    close(fd);
    comes_back(at_clock(9), &s.what);
    buf_fini(&bytes);
}

TEST(damage_is_told_with_its_place_and_what_to_do)
{
    (void)state;
    struct sample s;
    struct buf bytes;
    tri_error err;
    char text[300];
    make_small(&s, &bytes);
    bytes.data[bytes.len - 1] ^= 1;
    put(at_clock(9), bytes.data, bytes.len);
    refuses(at_clock(9), &err);
    (void)snprintf(text, sizeof text, "checkpoint '%s' is damaged", at_clock(9));
    assert_string_equal(err.text, text);
    uint64_t head = 8 + wire_load_u64((uint8_t *)bytes.data);
    (void)snprintf(text, sizeof text, "%s, byte %llu", at_clock(9), (unsigned long long)head);
    assert_string_equal(err.where, text);
    assert_non_null(strstr(err.why, "on have the checksum"));
    (void)snprintf(text, sizeof text,
                   "use an older one: trident checkpoint verify %s/ tells which are whole", folder);
    assert_string_equal(err.next, text);
    assert_int_equal(rename(at_clock(9), at("clock-000000000010.safetensors")), 0);
    refuses(at_clock(10), &err);
    assert_string_equal(err.why, "it is of clock 9, and its name says otherwise");
    buf_fini(&bytes);
}

/* A header of one's own with sums that are right, and some data. */
static void forge(const char *path, const char *header, size_t data_bytes)
{
    struct buf bytes;
    char sum[CHECKPOINT_SUM + 1];
    buf_init(&bytes, &mem_libc);
    size_t len = (strlen(header) + 7) / 8 * 8;
    buf_fill(&bytes, '\0', 8);
    wire_store_u64((uint8_t *)bytes.data, len);
    buf_text(&bytes, header);
    buf_fill(&bytes, ' ', 8 + len - bytes.len);
    buf_fill(&bytes, 'd', data_bytes);
    assert_true(buf_ok(&bytes));
    char *data_sum = checkpoint_sum_at(bytes.data, 8 + len, CHECKPOINT_DATA_SUM);
    char *header_sum = checkpoint_sum_at(bytes.data, 8 + len, CHECKPOINT_HEADER_SUM);
    (void)snprintf(sum, sizeof sum, "%08x", (unsigned)crc32c(0, bytes.data + 8 + len, data_bytes));
    if (data_sum != NULL)
        memcpy(data_sum, sum, CHECKPOINT_SUM);
    checkpoint_header_sum(bytes.data, 8 + len, header_sum, sum);
    if (header_sum != NULL)
        memcpy(header_sum, sum, CHECKPOINT_SUM);
    put(path, bytes.data, bytes.len);
    buf_fini(&bytes);
}

#define SUMS "\"crc32c\": \"00000000\", \"header_crc32c\": \"00000000\""
#define META(rest)                                                                                 \
    "{\"__metadata__\": {\"format\": \"trident.checkpoint.1\", " SUMS ", \"job\": \"j\", "         \
    "\"optimizer\": \"sgd\"" rest "}"
#define PLAIN ", \"clock\": \"4\", \"states\": \"0\", \"steps.a\": \"4\""
#define T(name, dtype, shape, offsets)                                                             \
    ", \"" name "\": {\"dtype\": \"" dtype "\", \"shape\": " shape ", \"data_offsets\": " offsets  \
    "}"

TEST(sound_files_that_are_no_whole_checkpoints_are_refused)
{
    (void)state;
    tri_error err;
    static const struct {
        const char *header, *why;
        size_t data;
    } rows[] = {
        {META(PLAIN) T("b.weight", "F32", "[1, 1]", "[0, 4]") "}", "'a.weight' of F32", 4},
        {META(PLAIN) "}", "there is 'none'", 0},
        {META(PLAIN) T("a.weight", "F32", "[1]", "[0, 4]") "}", "of another shape", 4},
        {META(PLAIN) T("a.weight", "F32", "[0, 1]", "[0, 0]") "}", "of another shape", 0},
        {META(PLAIN) T("a.weight", "I32", "[1, 1]", "[0, 4]") "}", "of another shape", 4},
        {META(PLAIN) T("a.weight", "F32", "[2, 1]", "[0, 8]")
             T("a.bias", "F32", "[1]", "[8, 12]") "}",
         "'a.bias' of F32", 12},
        {META(PLAIN) T("a.weight", "F32", "[1, 1]", "[0, 4]") T("x", "F32", "[1]", "[4, 8]") "}",
         "'x' belongs to no layer", 8},
        {META(PLAIN ", \"kept.x\": \"U64\"") T("a.weight", "F32", "[1, 1]", "[0, 4]") "}",
         "'x' of U64", 4},
        {META(PLAIN ", \"kept.x\": \"U8\"") T("a.weight", "F32", "[1, 1]", "[0, 4]") "}",
         "'kept.x' is 'U8'", 4},
        {META(", \"states\": \"0\", \"steps.a\": \"4\"") "}", "does not say 'clock'", 0},
        {META(", \"clock\": \"4\", \"steps.a\": \"4\"") "}", "does not say 'states'", 0},
        {META(", \"clock\": \"4\", \"states\": \"5\"") "}", "'states' is '5'", 0},
        {META(", \"clock\": \"-4\", \"states\": \"0\"") "}", "'clock' is '-4'", 0},
        {META(", \"clock\": \"4\", \"states\": \"0\", \"steps.a\": \"many\"") "}",
         "'steps.a' is 'many'", 0},
        {META(", \"clock\": \"4\", \"states\": \"1\", \"steps.a\": \"4\"")
             T("a.weight", "F32", "[1, 1]", "[0, 4]") "}",
         "'optim.0.a.weight'", 4},
        {META(", \"clock\": \"4\", \"states\": \"1\", \"steps.a\": \"4\"")
             T("a.weight", "F32", "[1, 2]", "[0, 8]")
                 T("optim.0.a.weight", "F32", "[2, 1]", "[8, 16]") "}",
         "of another shape", 16},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        forge(at_clock(4), rows[i].header, rows[i].data);
        refuses(at_clock(4), &err);
        if (strstr(err.why, rows[i].why) == NULL)
            fail_msg("%s: '%s' and not '%s'", rows[i].header, err.why, rows[i].why);
    }
    forge(at_clock(4), META(PLAIN) T("a.weight", "F32", "[1, 1]", "[0, 4]") "}", 4);
    assert_int_equal(checkpoint_verify(at_clock(4), &mem_libc, NULL), TRI_OK);
}

TEST(files_of_other_formats_are_refused_by_name)
{
    (void)state;
    tri_error err;
    forge(at_clock(4),
          "{\"__metadata__\": {\"format\": \"trident.checkpoint.2\", \"library\": \"9.1\"}}", 0);
    refuses(at_clock(4), &err);
    assert_non_null(strstr(err.text, "is of another version, 'trident.checkpoint.2'"));
    assert_non_null(strstr(err.why, "this trident reads 'trident.checkpoint.1'"));
    assert_non_null(strstr(err.next, "9.1"));
    forge(at("m.safetensors"), "{\"__metadata__\": {\"format\": \"trident-model\"}}", 0);
    refuses(at("m.safetensors"), &err);
    assert_non_null(strstr(err.text, "m.safetensors' is not a checkpoint"));
    assert_non_null(strstr(err.next, "trident predict --model"));
    forge(at("m.safetensors"), "{\"w\": {\"dtype\":\"U8\",\"shape\":[2],\"data_offsets\":[0,2]}}",
          2);
    refuses(at("m.safetensors"), &err);
    assert_string_equal(err.why, "it is a file of 1 tensors of the format '(none)'");
    put(at("README.md"), "# A text that is no tensor\n", 27);
    refuses(at("README.md"), &err);
    assert_non_null(strstr(err.text, "is not a checkpoint"));
    struct checkpoint *read = NULL;
    assert_int_equal(checkpoint_read(folder, &mem_libc, &read, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "is a folder"));
    assert_int_equal(checkpoint_read(at("none"), &mem_libc, &read, &err), TRI_EINPUT);
    assert_string_equal(err.why, "No such file or directory");
    assert_int_equal(mkfifo(at_clock(5), 0600), 0);
    assert_int_equal(checkpoint_read(at_clock(5), &mem_libc, &read, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "is no plain file")); /* and nobody waits for a writer */
}

/* ---- writes that fail ---- */

TEST(a_write_that_finds_no_memory_leaves_nothing)
{
    (void)state;
    struct fault fault = {0};
    struct sample s;
    make_sample(&s, 3, 1);
    FAULT_WALK(&fault)
    {
        struct buf path;
        tri_error err = {0};
        buf_init(&path, &fault.mem);
        tri_status status = checkpoint_write(folder, &s.what, &fault.mem, &path, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        assert_int_equal(err.status, status);
        assert_int_equal(each_entry(NULL), fault.hit ? 0 : 1);
        assert_int_equal(path.len == 0, fault.hit);
        buf_fini(&path);
    }
    assert_true(fault.run > 20);
    comes_back(at_clock(3), &s.what);
}

/* A file may grow to this: the next best thing to a full disk. */
static tri_status write_limited(const struct checkpoint *what, size_t limit, tri_error *err)
{
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = limit;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tri_status status = checkpoint_write(folder, what, &mem_libc, NULL, err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    return status;
}

TEST(a_disk_that_is_full_at_any_byte_costs_no_checkpoint)
{
    (void)state;
    struct sample old, s;
    struct buf bytes;
    tri_error err;
    make_small(&old, &bytes); /* clock 9 */
    buf_fini(&bytes);
    make_small(&s, &bytes);
    for (size_t limit = 0; limit < bytes.len; limit += 1 + limit / 100) {
        s.what.clock = 10;
        assert_int_equal(write_limited(&s.what, limit, &err), TRI_EIO);
        assert_non_null(strstr(err.text, "no room for checkpoint '"));
        assert_non_null(strstr(err.text, "clock-000000000010.safetensors'"));
        assert_memory_equal(err.why, "File too large: it needs ", 25);
        assert_non_null(strstr(err.why, "are free in '"));
        assert_non_null(strstr(err.next, "make room there"));
        s.what.clock = 9; /* nor is one of the same name */
        assert_int_equal(write_limited(&s.what, limit, &err), TRI_EIO);
        assert_int_equal(each_entry(NULL), 1);
    }
    comes_back(at_clock(9), &old.what);
    assert_int_equal(write_limited(&s.what, bytes.len, &err), TRI_OK);
    buf_fini(&bytes);
}

/* Runs a check as a user whom permissions bind. */
static void as_nobody(void (*check)(void))
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (geteuid() == 0 && (setegid(65534) < 0 || seteuid(65534) < 0))
            _exit(0); /* not here */
        check();
        _exit(0);
    }
    int code = -1;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
}

static void write_refused(void)
{
    struct sample s;
    tri_error err = {0};
    struct checkpoint_claim *claim = NULL;
    make_sample(&s, 1, 0);
    if (checkpoint_write(folder, &s.what, &mem_libc, NULL, &err) != TRI_EIO ||
        strcmp(err.why, "Permission denied") != 0 || err.next[0] == '\0')
        _exit(1);
    if (checkpoint_check_folder(folder, &err) != TRI_EINPUT ||
        strcmp(err.why, "Permission denied") != 0)
        _exit(2);
    if (checkpoint_claim(folder, "j", true, &mem_libc, &claim, &err) != TRI_EINPUT)
        _exit(3);
    char below[100];
    (void)snprintf(below, sizeof below, "%s/below", folder);
    if (checkpoint_check_folder(below, &err) != TRI_EINPUT || err.next[0] == '\0')
        _exit(4);
}

TEST(a_folder_that_cannot_be_written_to_is_told)
{
    (void)state;
    tri_error err = {0};
    save_clock(8);
    assert_int_equal(chmod(folder, 0555), 0);
    as_nobody(write_refused);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(each_entry(NULL), 1);
    assert_int_equal(checkpoint_check_folder(folder, &err), TRI_OK);
    assert_int_equal(each_entry(NULL), 1);
    assert_int_equal(checkpoint_check_folder("/proc/no/parent", &err), TRI_EINPUT);
    assert_string_equal(err.why, "No such file or directory");
    put(at("file"), "", 0);
    assert_int_equal(checkpoint_check_folder(at("file"), &err), TRI_EINPUT);
    assert_string_equal(err.why, "Not a directory");
    assert_int_equal(checkpoint_check_folder(at("fresh"), &err), TRI_OK);
    assert_true(is_there(at("fresh")));
}

TEST(reading_that_finds_no_memory_leaks_nothing)
{
    (void)state;
    struct fault fault = {0};
    struct sample s;
    make_sample(&s, 3, 2);
    save(&s.what);
    FAULT_WALK(&fault)
    {
        struct checkpoint *read = NULL;
        tri_error err = {0};
        tri_status status = checkpoint_newest(folder, &fault.mem, NULL, NULL, &read, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        assert_int_equal(err.status, status);
        assert_int_equal(read == NULL, fault.hit);
        checkpoint_free(read, &fault.mem);
    }
    assert_true(fault.run > 20);
}

/* ---- the folder of a job ---- */

TEST(a_list_is_newest_first_and_of_checkpoints_only)
{
    (void)state;
    struct checkpoint_entry *entries = NULL;
    size_t count = 0;
    tri_error err = {0};
    save_clock(20);
    save_clock(3);
    save_clock(UINT64_C(1234567890123));
    put(at("clock-7.safetensors"), "", 0);
    put(at("clock-0000000000007.safetensors"), "", 0);
    put(at("clock-00000000007x.safetensors"), "", 0);
    put(at("clock-99999999999999999999.safetensors"), "", 0);
    put(at("model.safetensors"), "", 0);
    put(at(".clock-000000000007.safetensors"), "", 0);
    assert_int_equal(mkdir(at_clock(8), 0700), 0);
    assert_int_equal(checkpoint_list(folder, &mem_libc, &entries, &count, &err), TRI_OK);
    assert_int_equal(count, 3);
    assert_int_equal(entries[0].clock, UINT64_C(1234567890123));
    assert_string_equal(entries[1].name, "clock-000000000020.safetensors");
    assert_int_equal(entries[2].clock, 3);
    struct stat found;
    assert_int_equal(stat(at_clock(20), &found), 0);
    assert_int_equal(entries[1].bytes, found.st_size);
    assert_int_equal(entries[1].written_s, found.st_mtime);
    mem_free(&mem_libc, entries);
    assert_int_equal(checkpoint_list(at("none"), &mem_libc, &entries, &count, &err), TRI_EINPUT);
}

struct told {
    size_t count;
    tri_error last;
};

static void tell(void *ctx, const tri_error *why)
{
    struct told *told = ctx;
    told->count++;
    told->last = *why;
}

static void damage(uint64_t clock)
{
    struct stat found;
    assert_int_equal(stat(at_clock(clock), &found), 0);
    assert_int_equal(truncate(at_clock(clock), found.st_size - 1), 0);
}

TEST(the_newest_whole_one_is_taken_and_each_damaged_one_told)
{
    (void)state;
    struct told told = {0};
    struct checkpoint *read = NULL;
    tri_error err = {0};
    for (uint64_t clock = 1; clock <= 4; clock++)
        save_clock(clock);
    damage(4);
    damage(3);
    assert_int_equal(checkpoint_newest(folder, &mem_libc, tell, &told, &read, &err), TRI_OK);
    assert_int_equal(read->clock, 2);
    checkpoint_free(read, &mem_libc);
    assert_int_equal(told.count, 2);
    assert_non_null(strstr(told.last.text, "clock-000000000003"));
    damage(2);
    damage(1);
    told.count = 0;
    assert_int_equal(checkpoint_newest(folder, &mem_libc, tell, &told, &read, &err), TRI_EINPUT);
    assert_null(read);
    assert_int_equal(told.count, 4);
    assert_string_equal(err.why, "all 4 are damaged");
    assert_true(err.next[0] != '\0');
}

TEST(a_folder_with_none_and_no_folder_give_none)
{
    (void)state;
    struct checkpoint *read = NULL;
    tri_error err = {0};
    assert_int_equal(checkpoint_newest(folder, &mem_libc, NULL, NULL, &read, &err), TRI_OK);
    assert_null(read);
    assert_int_equal(checkpoint_newest(at("none"), &mem_libc, NULL, NULL, &read, &err), TRI_OK);
    assert_null(read);
    put(at("file"), "", 0);
    assert_int_equal(checkpoint_newest(at("file"), &mem_libc, NULL, NULL, &read, &err), TRI_EINPUT);
}

/* ---- what is removed ---- */

static void holds_clocks(const uint64_t *clocks, size_t wanted)
{
    struct checkpoint_entry *entries = NULL;
    size_t count = 0;
    assert_int_equal(checkpoint_list(folder, &mem_libc, &entries, &count, NULL), TRI_OK);
    assert_int_equal(count, wanted);
    for (size_t i = 0; i < wanted && i < count; i++)
        assert_int_equal(entries[i].clock, clocks[i]);
    mem_free(&mem_libc, entries);
}

TEST(pruning_keeps_the_newest_whole_ones_and_those_that_are_damaged)
{
    (void)state;
    tri_error err = {0};
    for (uint64_t clock = 1; clock <= 6; clock++)
        save_clock(clock);
    put(at("notes.txt"), "mine", 4);
    assert_int_equal(checkpoint_prune(folder, 6, &mem_libc, &err), TRI_OK);
    holds_clocks((const uint64_t[]){6, 5, 4, 3, 2, 1}, 6);
    damage(6);
    damage(2);
    assert_int_equal(checkpoint_prune(folder, 2, &mem_libc, &err), TRI_OK);
    holds_clocks((const uint64_t[]){6, 5, 4, 2}, 4);
    assert_int_equal(checkpoint_prune(folder, 0, &mem_libc, &err), TRI_OK);
    holds_clocks((const uint64_t[]){6, 5, 2}, 3);
    damage(5);
    assert_int_equal(checkpoint_prune(folder, 1, &mem_libc, &err), TRI_OK);
    holds_clocks((const uint64_t[]){6, 5, 2}, 3); /* not one that is whole: none is removed */
    assert_true(is_there(at("notes.txt")));
    assert_int_equal(err.status, TRI_OK);
    assert_int_equal(checkpoint_prune(at("none"), 1, &mem_libc, &err), TRI_EINPUT);
}

TEST(pruning_without_memory_removes_nothing_too_much)
{
    (void)state;
    struct fault fault = {0};
    for (uint64_t clock = 1; clock <= 3; clock++)
        save_clock(clock);
    FAULT_WALK(&fault)
    {
        tri_error err = {0};
        tri_status status = checkpoint_prune(folder, 2, &fault.mem, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        assert_int_equal(err.status, status);
        assert_true(is_there(at_clock(3)) && is_there(at_clock(2)));
    }
    holds_clocks((const uint64_t[]){3, 2}, 2);
}

TEST(what_a_killed_process_left_goes_and_what_is_being_written_stays)
{
    (void)state;
    tri_error err = {0};
    save_clock(1);
    put(at(".clock-000000000002.safetensors.999.0.tmp"), "half", 4);
    put(at(".clock-000000000003.safetensors.999.0.tmp"), "half", 4);
    put(at(".other.tmp"), "not ours", 8);
    int writer = open(at(".clock-000000000003.safetensors.999.0.tmp"), O_WRONLY | O_CLOEXEC);
    assert_true(writer >= 0);
    assert_int_equal(flock(writer, LOCK_EX), 0); /* as one that is alive holds it */
    assert_int_equal(checkpoint_prune(folder, 1, &mem_libc, &err), TRI_OK);
    assert_false(is_there(at(".clock-000000000002.safetensors.999.0.tmp")));
    assert_true(is_there(at(".clock-000000000003.safetensors.999.0.tmp")));
    assert_true(is_there(at(".other.tmp")));
    close(writer);
    assert_int_equal(checkpoint_prune(folder, 1, &mem_libc, &err), TRI_OK);
    assert_false(is_there(at(".clock-000000000003.safetensors.999.0.tmp")));
    assert_true(is_there(at_clock(1)));
}

/* ---- several at once ---- */

TEST(a_folder_has_one_job_at_a_time)
{
    (void)state;
    struct checkpoint_claim *one = NULL, *two = NULL;
    tri_error err = {0};
    assert_int_equal(checkpoint_claim(folder, "night", false, &mem_libc, &one, &err), TRI_OK);
    assert_int_equal(checkpoint_claim(folder, "day", true, &mem_libc, &two, &err), TRI_EINPUT);
    assert_null(two);
    assert_non_null(strstr(err.text, "is in use"));
    char text[60];
    (void)snprintf(text, sizeof text, "by job 'night', process %ld on ", (long)getpid());
    assert_memory_equal(err.why, text, strlen(text));
    assert_non_null(strstr(err.next, "another folder"));
    save_clock(1);
    checkpoint_release(one);
    assert_int_equal(each_entry(NULL), 1);
    assert_int_equal(checkpoint_claim(folder, "day", false, &mem_libc, &two, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "holds the checkpoints of a job before"));
    assert_non_null(strstr(err.why, "clock-000000000001.safetensors"));
    assert_int_equal(checkpoint_claim(folder, "day", true, &mem_libc, &two, &err), TRI_OK);
    checkpoint_release(two);
    checkpoint_release(NULL);
    assert_int_equal(each_entry(NULL), 1);
}

TEST(a_job_that_is_killed_lets_go_of_its_folder)
{
    (void)state;
    struct checkpoint_claim *claim = NULL;
    tri_error err = {0};
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        if (checkpoint_claim(folder, "night", false, &mem_libc, &claim, NULL) != TRI_OK)
            _exit(1);
        (void)!write(ready[1], "", 1);
        pause();
    }
    char byte;
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(checkpoint_claim(folder, "day", true, &mem_libc, &claim, &err), TRI_EINPUT);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(checkpoint_claim(folder, "day", true, &mem_libc, &claim, &err), TRI_OK);
    checkpoint_release(claim);
    close(ready[0]);
    close(ready[1]);
}

TEST(claiming_without_memory_leaves_no_lock)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct checkpoint_claim *claim = NULL;
        tri_error err = {0};
        tri_status status = checkpoint_claim(folder, "night", false, &fault.mem, &claim, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        checkpoint_release(claim);
        assert_int_equal(each_entry(NULL), 0);
    }
}

enum { WRITERS = 3, ROUNDS = 40 };

/* Without a claim, all with the same clocks. */
static void write_and_prune(uint32_t writer)
{
    struct sample s;
    for (uint64_t clock = 1; clock <= ROUNDS; clock++) {
        make_sample(&s, clock, writer);
        if (checkpoint_write(folder, &s.what, &mem_libc, NULL, NULL) != TRI_OK)
            _exit(1);
        if (checkpoint_prune(folder, 2, &mem_libc, NULL) != TRI_OK)
            _exit(2);
    }
    _exit(0);
}

TEST(writers_that_meet_in_a_folder_never_spoil_a_file)
{
    (void)state;
    pid_t children[WRITERS] = {0};
    int codes = 0;
    for (uint32_t i = 0; i < WRITERS; i++)
        if ((children[i] = fork()) == 0)
            write_and_prune(i);
    for (uint32_t i = 0; i < WRITERS; i++) { /* all of them, before the folder goes */
        int code = -1;
        (void)waitpid(children[i], &code, 0);
        codes |= code;
    }
    assert_int_equal(codes, 0);
    holds_clocks((const uint64_t[]){ROUNDS, ROUNDS - 1}, 2);
    assert_int_equal(checkpoint_verify(at_clock(ROUNDS), &mem_libc, NULL), TRI_OK);
    assert_int_equal(checkpoint_verify(at_clock(ROUNDS - 1), &mem_libc, NULL), TRI_OK);
    assert_int_equal(each_entry(NULL), 2);
}

/* Saves clock after clock until it is killed. */
static void write_on(void)
{
    static float many[400 * 100];
    struct sample s;
    for (uint64_t clock = 1;; clock++) {
        make_sample(&s, clock, 0);
        fill(many, 400 * 100, (uint32_t)clock);
        s.layers[0].rows = 400;
        s.layers[0].cols = 99;
        s.layers[0].values = many;
        if (checkpoint_write(folder, &s.what, &mem_libc, NULL, NULL) != TRI_OK ||
            checkpoint_prune(folder, 2, &mem_libc, NULL) != TRI_OK)
            _exit(1);
    }
}

/* How many writes are killed; the long version has more. */
static unsigned kills(void)
{
    const char *text = getenv("TRIDENT_CHECKPOINT_KILLS");
    return text != NULL ? (unsigned)strtoul(text, NULL, 10) : 25;
}

TEST(whenever_it_is_killed_the_newest_whole_one_can_be_read)
{
    (void)state;
    uint64_t last = 0;
    for (unsigned i = 0; i < kills(); i++) {
        struct told told = {0};
        struct checkpoint *read = NULL;
        tri_error err = {0};
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0)
            write_on();
        (void)usleep(1000 + i * 7919 % 12000); /* any moment will do */
        assert_int_equal(kill(child, SIGKILL), 0);
        int code = 0;
        assert_int_equal(waitpid(child, &code, 0), child);
        assert_true(WIFSIGNALED(code)); /* none of its writes had failed */
        assert_int_equal(checkpoint_newest(folder, &mem_libc, tell, &told, &read, &err), TRI_OK);
        assert_int_equal(told.count, 0);
        if (read != NULL)
            last = read->clock > last ? read->clock : last;
        checkpoint_free(read, &mem_libc);
        assert_int_equal(checkpoint_prune(folder, 2, &mem_libc, NULL), TRI_OK);
        assert_in_range(each_entry(NULL), 0, 2);
    }
    assert_true(last > 0 || kills() == 0);
}

#define IN_FOLDER(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(what_is_written_is_read_bit_by_bit),
        IN_FOLDER(layers_without_bias_and_jobs_that_keep_nothing_come_back),
        IN_FOLDER(large_clocks_and_values_of_many_pieces_come_back),
        IN_FOLDER(the_path_is_told_and_the_folder_is_made),
        IN_FOLDER(any_reader_of_safetensors_finds_the_tensors),
        IN_FOLDER(what_could_not_be_read_again_is_not_written),
        IN_FOLDER(every_length_but_the_whole_is_refused),
        IN_FOLDER(every_bit_that_is_flipped_is_noticed),
        IN_FOLDER(damage_is_told_with_its_place_and_what_to_do),
        IN_FOLDER(sound_files_that_are_no_whole_checkpoints_are_refused),
        IN_FOLDER(files_of_other_formats_are_refused_by_name),
        IN_FOLDER(a_write_that_finds_no_memory_leaves_nothing),
        IN_FOLDER(a_disk_that_is_full_at_any_byte_costs_no_checkpoint),
        IN_FOLDER(a_folder_that_cannot_be_written_to_is_told),
        IN_FOLDER(reading_that_finds_no_memory_leaks_nothing),
        IN_FOLDER(a_list_is_newest_first_and_of_checkpoints_only),
        IN_FOLDER(the_newest_whole_one_is_taken_and_each_damaged_one_told),
        IN_FOLDER(a_folder_with_none_and_no_folder_give_none),
        IN_FOLDER(pruning_keeps_the_newest_whole_ones_and_those_that_are_damaged),
        IN_FOLDER(pruning_without_memory_removes_nothing_too_much),
        IN_FOLDER(what_a_killed_process_left_goes_and_what_is_being_written_stays),
        IN_FOLDER(a_folder_has_one_job_at_a_time),
        IN_FOLDER(a_job_that_is_killed_lets_go_of_its_folder),
        IN_FOLDER(claiming_without_memory_leaves_no_lock),
        IN_FOLDER(writers_that_meet_in_a_folder_never_spoil_a_file),
        IN_FOLDER(whenever_it_is_killed_the_newest_whole_one_can_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
