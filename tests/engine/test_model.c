/* engine/model: saving and loading, in a folder of the test's own. */
#include "engine/model.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/data/vocabulary.h"
#include "lib/test.h"
#include "os/file.h"
#include "wire/safetensors.h"

/* ---- the folder ---- */

struct folder {
    char path[64];
    char file[400]; /* of the last at() */
};

static int make_folder(void **state)
{
    static struct folder folder;
    (void)snprintf(folder.path, sizeof folder.path, "/tmp/trident-model-XXXXXX");
    *state = &folder;
    return mkdtemp(folder.path) != NULL ? 0 : -1;
}

/* A path in the folder, good until the next call. */
static const char *at(void **state, const char *name)
{
    struct folder *folder = *state;
    (void)snprintf(folder->file, sizeof folder->file, "%s/%s", folder->path, name);
    return folder->file;
}

/* How many entries there are, and without them, if asked. */
static size_t entries(void **state, bool discard)
{
    size_t count = 0;
    DIR *dir = opendir(((struct folder *)*state)->path);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0) {
            if (discard)
                assert_int_equal(remove(at(state, entry->d_name)), 0);
            count++;
        }
    closedir(dir);
    return count;
}

static int remove_folder(void **state)
{
    (void)entries(state, true);
    return rmdir(((struct folder *)*state)->path);
}

static void get(void **state, const char *name, struct buf *out)
{
    buf_init(out, &mem_libc);
    assert_int_equal(file_read(at(state, name), (size_t)1 << 30, out, NULL), TRI_OK);
}

static void put(void **state, const char *name, const char *bytes, size_t len)
{
    assert_int_equal(file_write(at(state, name), bytes, len, NULL), TRI_OK);
}

/* ---- models to save ---- */

#define TEXTCNN "textcnn:embed=4,filters=2,hidden=3"
#define RESNET  "resnet20:blocks=1"

static const char *const labels[] = {"T-shirt", "caf\xc3\xa9 \"x\"", "line\nbreak"};
static const char *const words[] = {"<pad>", "<unk>", "the", "na\xc3\xafve", "n't", "\\"};

struct sample {
    struct data data;
    struct model_info info;
    struct net *net;
};

/* Values of every kind of float that may be there. */
static void fill(struct net *net)
{
    static const float odd[] = {0.0F, -0.0F, 1e-42F, 3.0e38F, -1.0F / 3};
    size_t n = 0;
    for (size_t i = 0; i < net_params(net); i++) {
        struct param *param = net_param(net, i);
        size_t floats = (size_t)param->rows * param->cols;
        for (size_t j = 0; j < floats; j++, n++)
            param->weights[j] = j < 5 ? odd[j] : (float)(n % 1009) / 1009 - 0.5F;
        for (size_t j = 0; param->bias != NULL && j < param->rows; j++, n++)
            param->bias[j] = (float)(n % 613) / 613;
    }
    for (size_t i = 0; i < net_buffers(net); i++) {
        struct net_buffer buffer = net_buffer(net, i);
        for (size_t j = 0; j < buffer.floats; j++, n++)
            buffer.at[j] = (float)(n % 97) / 97 + 0.1F;
    }
}

static void open_sample(struct sample *sample, const char *model, bool text)
{
    tri_error err = {0};
    *sample = (struct sample){.data = {.text = text, .mean = {0.2861F}, .scale = {2.8329F}}};
    struct data *data = &sample->data;
    data->shape.classes = 3;
    if (text) {
        data->shape.length = 7;
        data->shape.words = 6;
        assert_int_equal(vocabulary_of(words, 6, &mem_libc, &data->words, NULL), TRI_OK);
    } else {
        data->shape.image = (struct shape3){1, 28, 28};
    }
    assert_int_equal(vocabulary_of(labels, 3, &mem_libc, &data->classes, NULL), TRI_OK);
    sample->info = (struct model_info){.model = model,
                                       .data = data,
                                       .data_name = "some data",
                                       .test_accuracy = 0.75,
                                       .seed = UINT64_MAX,
                                       .iterations = 12};
    if (net_new(model, &data->shape, 4, 1, &mem_libc, &sample->net, &err) != TRI_OK)
        fail_msg("%s", err.text);
    fill(sample->net);
}

static void close_sample(struct sample *sample)
{
    net_free(sample->net);
    vocabulary_free(sample->data.words);
    vocabulary_free(sample->data.classes);
}

static void save(void **state, const struct sample *sample, const char *name)
{
    tri_error err = {0};
    if (model_save(at(state, name), sample->net, &sample->info, &mem_libc, &err) != TRI_OK)
        fail_msg("%s (%s)", err.text, err.why);
}

static void save_new(void **state, const char *model, bool text, const char *name)
{
    struct sample sample;
    open_sample(&sample, model, text);
    save(state, &sample, name);
    close_sample(&sample);
}

/* ---- saving and loading ---- */

static void same_floats(const float *a, const float *b, size_t count)
{
    assert_memory_equal(a, b, count * sizeof *a);
}

static void same_values(struct net *a, struct net *b)
{
    assert_int_equal(net_params(a), net_params(b));
    for (size_t i = 0; i < net_params(a); i++) {
        const struct param *x = net_param(a, i), *y = net_param(b, i);
        assert_string_equal(x->name, y->name);
        same_floats(x->weights, y->weights, (size_t)x->rows * x->cols);
        if (x->bias != NULL)
            same_floats(x->bias, y->bias, x->rows);
    }
    assert_int_equal(net_buffers(a), net_buffers(b));
    for (size_t i = 0; i < net_buffers(a); i++)
        same_floats(net_buffer(a, i).at, net_buffer(b, i).at, net_buffer(a, i).floats);
}

static void same_names(const struct vocabulary *a, const struct vocabulary *b)
{
    assert_int_equal(vocabulary_size(a), vocabulary_size(b));
    for (uint32_t i = 0; i < vocabulary_size(a); i++)
        assert_string_equal(vocabulary_at(a, i), vocabulary_at(b, i));
}

static void comes_back(void **state, const char *spec, const char *name, bool text)
{
    struct sample sample;
    struct model *model = NULL;
    tri_error err = {0};
    open_sample(&sample, spec, text);
    save(state, &sample, "m.safetensors");
    if (model_load(at(state, "m.safetensors"), 2, &mem_libc, &model, &err) != TRI_OK)
        fail_msg("%s: %s", err.text, err.why);
    assert_string_equal(model->name, name);
    assert_int_equal(net_batch_size(model->net), 2);
    same_values(sample.net, model->net);
    assert_int_equal(model->data.text, text);
    assert_memory_equal(&model->data.shape, &sample.data.shape, sizeof sample.data.shape);
    if (!text) {
        same_floats(model->data.mean, sample.data.mean, 1);
        same_floats(model->data.scale, sample.data.scale, 1);
    }
    same_names(model->data.words, sample.data.words);
    same_names(model->data.classes, sample.data.classes);
    assert_int_equal(model->data.samples, 0);
    assert_int_equal(entries(state, false), 2);
    model_close(model);
    close_sample(&sample);
}

TEST(a_model_of_images_comes_back_bit_by_bit)
{
    comes_back(state, "mlp:8x2", "mlp", false);
}

TEST(a_model_of_text_comes_back_with_its_words)
{
    comes_back(state, TEXTCNN, "textcnn", true);
}

TEST(running_statistics_are_part_of_a_model)
{
    struct sample sample;
    open_sample(&sample, RESNET, false);
    assert_true(net_buffers(sample.net) > 0);
    close_sample(&sample);
    comes_back(state, RESNET, "resnet20", false);
}

TEST(labels_without_names_are_called_by_their_numbers)
{
    struct sample sample;
    struct model *model = NULL;
    open_sample(&sample, "mlp:8x2", false);
    vocabulary_free(sample.data.classes);
    sample.data.classes = NULL;
    save(state, &sample, "m.safetensors");
    assert_int_equal(model_load(at(state, "m.safetensors"), 1, &mem_libc, &model, NULL), TRI_OK);
    assert_string_equal(vocabulary_at(model->data.classes, 2), "2");
    model_close(model);
    close_sample(&sample);
}

TEST(a_saved_model_replaces_an_older_one)
{
    save_new(state, "mlp:8x2", false, "m.safetensors");
    save_new(state, "mlp:9x2", false, "m.safetensors");
    struct model *model = NULL;
    assert_int_equal(model_load(at(state, "m.safetensors"), 1, &mem_libc, &model, NULL), TRI_OK);
    assert_int_equal(net_param(model->net, 0)->rows, 9);
    model_close(model);
    assert_int_equal(entries(state, false), 2);
}

TEST(a_disk_that_is_full_keeps_the_older_model)
{
    struct sample sample;
    struct rlimit before, small;
    struct model *model = NULL;
    tri_error err = {0};
    save_new(state, "mlp:9x2", false, "m.safetensors");
    open_sample(&sample, "mlp:8x2", false);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = before;
    small.rlim_cur = 4000; /* enough for the JSON, too little for the values */
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    tri_status status =
        model_save(at(state, "m.safetensors"), sample.net, &sample.info, &mem_libc, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, TRI_EIO);
    assert_memory_equal(err.next, "make room", 9);
    assert_int_equal(model_load(at(state, "m.safetensors"), 1, &mem_libc, &model, NULL), TRI_OK);
    assert_int_equal(net_param(model->net, 0)->rows, 9);
    model_close(model);
    close_sample(&sample);
    assert_int_equal(entries(state, false), 2);
}

/* ---- where to ---- */

TEST(a_path_that_cannot_be_written_is_found_out_before)
{
    tri_error err = {0};
    assert_int_equal(model_check_path(at(state, "m.safetensors"), &mem_libc, &err), TRI_OK);
    assert_int_equal(entries(state, false), 0);
    assert_int_equal(model_check_path(at(state, "no/m.safetensors"), &mem_libc, &err), TRI_EINPUT);
    assert_string_equal(err.why, "No such file or directory");
    assert_int_equal(model_check_path(at(state, "m.bin"), &mem_libc, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "m.bin' does not end in .safetensors"));
    assert_string_equal(err.next, "write FILE.safetensors");
    assert_int_equal(model_check_path(".safetensors", &mem_libc, &err), TRI_EINPUT);
    assert_int_equal(mkdir(at(state, "f.safetensors"), 0700), 0);
    assert_int_equal(model_check_path(at(state, "f.safetensors"), &mem_libc, &err), TRI_EINPUT);
    assert_int_equal(mkdir(at(state, "m.json"), 0700), 0);
    assert_int_equal(model_check_path(at(state, "m.safetensors"), &mem_libc, &err), TRI_EINPUT);
    assert_non_null(strstr(err.text, "m.json' is a folder"));
}

/* ---- files that are none ---- */

static void refuses(void **state, const char *text)
{
    struct model *model = NULL;
    tri_error err = {0};
    assert_int_equal(model_load(at(state, "m.safetensors"), 1, &mem_libc, &model, &err),
                     TRI_EINPUT);
    assert_null(model);
    if (strstr(err.text, text) == NULL)
        fail_msg("'%s' and not '%s'", err.text, text);
    assert_true(err.next[0] != '\0');
}

TEST(a_model_of_one_file_is_refused)
{
    refuses(state, "cannot open");
    save_new(state, "mlp:8x2", false, "m.safetensors");
    assert_int_equal(remove(at(state, "m.json")), 0);
    refuses(state, "m.json'");
}

TEST(files_of_different_models_are_refused)
{
    struct buf json;
    save_new(state, "mlp:8x2", false, "other.safetensors");
    get(state, "other.json", &json);
    save_new(state, "mlp:9x2", false, "m.safetensors");
    put(state, "m.json", json.data, json.len);
    buf_fini(&json);
    refuses(state, "do not belong together");
}

/* The same JSON with `from` replaced by `to`. */
static void change(void **state, const char *from, const char *to)
{
    struct buf json, changed;
    get(state, "m.json", &json);
    buf_init(&changed, &mem_libc);
    const char *found = strstr(buf_string(&json), from);
    if (found == NULL) {
        fail_msg("there is no '%s'", from);
        return;
    }
    buf_add(&changed, json.data, (size_t)(found - json.data));
    buf_text(&changed, to);
    buf_text(&changed, found + strlen(from));
    put(state, "m.json", changed.data, changed.len);
    buf_fini(&json);
    buf_fini(&changed);
}

TEST(a_net_that_does_not_fit_the_values_is_refused)
{
    static const struct {
        const char *from, *to, *text;
    } cases[] = {
        {"mlp:8x2", "mlp:9x2", "does not fit"},
        {"mlp:8x2", "mlp:8x3", "has no tensor"},
        {"mlp:8x2", "nonsense", "nonsense"},
        {"\"width\": 28", "\"width\": 27", "does not fit"},
        {", \"line\\u000abreak\"", "", "does not fit"},
        {"\"format\": \"trident-model\"", "\"format\": \"other\"", "format is not"},
        {"\"version\": 1", "\"version\": 2", "2 is not between 1 and 1"},
        {"\"labels\":", "\"lables\":", "there is no 'labels'"},
        {"\"net\":", "\"nett\":", "there is no 'net'"},
        {"\"image\"", "\"picture\"", "'kind' is neither"},
        {"\"height\": 28", "\"height\": 0", "0 is not between"},
        {"T-shirt", "caf\xc3\xa9 \\\"x\\\"", "is there twice"},
        {"\"width\": 28, ", "", "'input' is neither"},
        {"\"height\":", "\"length\": 3, \"words\": 3, \"height\":", "'input' is neither"},
        {"\n}", "\n} x", "more text"},
        {"{", "[", "found '['"},
        {"\"words\": [", "\"wordss\": [", "there is no 'words'"},
        {"\"words\": 6", "\"words\": 5", "there are 6 words, and 5 in 'input'"},
        {"textcnn:embed=4", "textcnn:embed=5", "does not fit"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool text = strstr(cases[i].from, "words") != NULL || strstr(cases[i].from, "text") != NULL;
        save_new(state, text ? TEXTCNN : "mlp:8x2", text, "m.safetensors");
        change(state, cases[i].from, cases[i].to);
        refuses(state, cases[i].text);
    }
}

/* Writes the values again, with one tensor more. */
static void add_tensor(void **state, const char *name)
{
    struct buf old, new;
    struct safetensors *list = NULL;
    get(state, "m.safetensors", &old);
    buf_init(&new, &mem_libc);
    const struct safetensors_source source = {
        .path = "m", .bytes = old.data, .len = old.len, .file_bytes = old.len};
    assert_int_equal(safetensors_read(&source, &mem_libc, &list, NULL), TRI_OK);
    struct safetensors_tensor tensors[20];
    assert_true(list->count < 20);
    memcpy(tensors, list->tensors, list->count * sizeof *tensors);
    tensors[list->count] = (struct safetensors_tensor){.name = name, .dtype = SAFETENSORS_F32};
    const struct safetensors more = {.count = list->count + 1, .tensors = tensors};
    assert_int_equal(safetensors_write(&more, &new, NULL), TRI_OK);
    buf_add(&new, old.data + list->head_bytes, old.len - list->head_bytes);
    buf_fill(&new, '\0', sizeof(float));
    put(state, "m.safetensors", new.data, new.len);
    safetensors_free(list, &mem_libc);
    buf_fini(&old);
    buf_fini(&new);
}

TEST(values_without_a_place_are_refused)
{
    save_new(state, "mlp:8x2", false, "m.safetensors");
    add_tensor(state, "extra.weight");
    refuses(state, "has no place for tensor 'extra.weight'");
}

/* Half a file, of every length that matters. */
static void refuse_beginnings(void **state, const char *name, size_t step)
{
    struct buf whole;
    save_new(state, "mlp:8x2", false, "m.safetensors");
    get(state, name, &whole);
    while (whole.len > 0 && whole.data[whole.len - 1] == '\n')
        whole.len--;
    for (size_t len = 0; len < whole.len; len += step) {
        struct model *model = NULL;
        put(state, name, whole.data, len);
        assert_int_equal(model_load(at(state, "m.safetensors"), 1, &mem_libc, &model, NULL),
                         TRI_EINPUT);
        assert_null(model);
    }
    buf_fini(&whole);
}

TEST(half_a_file_is_refused)
{
    refuse_beginnings(state, "m.json", 7);
    refuse_beginnings(state, "m.safetensors", 211);
}

TEST(values_with_a_flipped_bit_are_refused)
{
    struct buf bytes;
    tri_error err = {0};
    struct model *model = NULL;
    save_new(state, "mlp:8x2", false, "m.safetensors");
    get(state, "m.safetensors", &bytes);
    bytes.data[bytes.len - 2] ^= 0x40;
    put(state, "m.safetensors", bytes.data, bytes.len);
    assert_int_equal(model_load(at(state, "m.safetensors"), 1, &mem_libc, &model, &err),
                     TRI_EINPUT);
    assert_non_null(strstr(err.text, "is damaged"));
    assert_null(model);
    buf_fini(&bytes);
}

/* ---- other readers ---- */

/* What the program prints. */
static void output_of(const char *program, const char *script, const char *file, char *out,
                      size_t room)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDOUT_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp(program, program, script, file, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    size_t used = 0;
    for (ssize_t got; (got = read(ends[0], out + used, room - 1 - used)) > 0;)
        used += (size_t)got;
    out[used] = '\0';
    close(ends[0]);
    int code = 0;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
}

TEST(twenty_lines_of_python_open_a_model)
{
    struct sample sample;
    char found[8000], wanted[8000];
    open_sample(&sample, "mlp:8x2", false);
    for (size_t i = 0; i < net_params(sample.net); i++) /* sums without rounding */
        for (size_t j = 0; j < net_param(sample.net, i)->rows; j++) {
            struct param *param = net_param(sample.net, i);
            param->bias[j] = (float)j + (float)i / 8;
            for (size_t k = 0; k < param->cols; k++)
                param->weights[j * param->cols + k] = (float)(k % 5) - 1.5F;
        }
    save(state, &sample, "m.safetensors");
    output_of("python3", "tests/engine/read_model.py", at(state, "m.safetensors"), found,
              sizeof found);
    size_t used = (size_t)snprintf(wanted, sizeof wanted, "format trident-model\n");
    for (size_t i = 0; i < net_params(sample.net); i++) {
        const struct param *param = net_param(sample.net, i);
        double weights = 0, bias = 0;
        for (size_t j = 0; j < (size_t)param->rows * param->cols; j++)
            weights += (double)param->weights[j];
        for (size_t j = 0; j < param->rows; j++)
            bias += (double)param->bias[j];
        used += (size_t)snprintf(wanted + used, sizeof wanted - used,
                                 "%s.weight [%u, %u] %.6f\n%s.bias [%u] %.6f\n", param->name,
                                 param->rows, param->cols, weights, param->name, param->rows, bias);
    }
    assert_string_equal(found, wanted);
    close_sample(&sample);
}

/* ---- memory ---- */

TEST(refused_memory_is_told_and_nothing_leaks)
{
    struct sample sample;
    struct fault fault = {0};
    open_sample(&sample, TEXTCNN, true);
    FAULT_WALK(&fault)
    {
        tri_error err = {0};
        struct model *model = NULL;
        const char *path = at(state, "m.safetensors");
        tri_status status = model_check_path(path, &fault.mem, &err);
        if (status == TRI_OK)
            status = model_save(path, sample.net, &sample.info, &fault.mem, &err);
        if (status == TRI_OK)
            status = model_load(path, 1, &fault.mem, &model, &err);
        assert_int_equal(status, fault.hit ? TRI_ENOMEM : TRI_OK);
        assert_int_equal(err.status, status);
        assert_int_equal(model != NULL, status == TRI_OK);
        model_close(model);
    }
    assert_true(fault.run > 20);
    close_sample(&sample);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(a_model_of_images_comes_back_bit_by_bit),
        IN_FOLDER(a_model_of_text_comes_back_with_its_words),
        IN_FOLDER(running_statistics_are_part_of_a_model),
        IN_FOLDER(labels_without_names_are_called_by_their_numbers),
        IN_FOLDER(a_saved_model_replaces_an_older_one),
        IN_FOLDER(a_disk_that_is_full_keeps_the_older_model),
        IN_FOLDER(a_path_that_cannot_be_written_is_found_out_before),
        IN_FOLDER(a_model_of_one_file_is_refused),
        IN_FOLDER(files_of_different_models_are_refused),
        IN_FOLDER(a_net_that_does_not_fit_the_values_is_refused),
        IN_FOLDER(values_without_a_place_are_refused),
        IN_FOLDER(half_a_file_is_refused),
        IN_FOLDER(values_with_a_flipped_bit_are_refused),
        IN_FOLDER(twenty_lines_of_python_open_a_model),
        IN_FOLDER(refused_memory_is_told_and_nothing_leaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
