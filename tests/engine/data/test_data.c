/* engine/data: what users write becomes samples, or an error that says where. */
#include "engine/data/data.h"

#include <math.h>

#include "engine/files.h"

static unsigned char pixel(size_t i)
{
    return (unsigned char)(i * i % 251);
}

static unsigned char label(size_t i)
{
    return (unsigned char)(i % 3);
}

static unsigned char always_two(size_t i)
{
    (void)i;
    return 2;
}

static unsigned char up(size_t i)
{
    return (unsigned char)i;
}

/* The four files of an IDX data set, 6 x 4 pixels. */
static void put_idx(struct files *files, unsigned train, unsigned test)
{
    unsigned char bytes[4000];
    (void)files_put(files, "train-images-idx3-ubyte.gz", bytes,
                    files_idx(bytes, train, 6, 4, pixel));
    (void)files_put(files, "train-labels-idx1-ubyte.gz", bytes,
                    files_idx(bytes, train, 0, 0, label));
    (void)files_put(files, "t10k-images-idx3-ubyte", bytes, files_idx(bytes, test, 6, 4, pixel));
    (void)files_put(files, "t10k-labels-idx1-ubyte", bytes, files_idx(bytes, test, 0, 0, label));
}

TEST(an_idx_folder_has_both_parts)
{
    (void)state;
    struct files files;
    char spec[256];
    files_begin(&files);
    put_idx(&files, 20, 5);
    const struct data_options options = {.data = files_spec(&files, "idx", NULL, spec)};
    struct data_set *set = files_open(&options);
    assert_int_equal(set->train.samples, 20);
    assert_int_equal(set->test.samples, 5);
    assert_int_equal(set->train.shape.classes, 3);
    assert_int_equal(set->test.shape.image.height, 6);
    assert_int_equal(set->test.shape.image.width, 4);
    assert_string_equal(vocabulary_at(set->test.classes, 2), "2");
    assert_int_equal(set->train.labels[4], 1);
    assert_string_equal(set->name, spec);
    assert_false(set->train.text);
    data_close(set);
    data_close(NULL);
    files_end(&files);
}

TEST(batches_are_scaled_by_the_training_part)
{
    (void)state;
    enum { N = 20, AREA = 24 };
    struct files files;
    char spec[256];
    files_begin(&files);
    put_idx(&files, N, 5);
    const struct data_options options = {.data = files_spec(&files, "idx", NULL, spec)};
    struct data_set *set = files_open(&options);
    uint64_t numbers[N];
    float images[N * AREA];
    uint32_t labels[N];
    for (uint64_t i = 0; i < N; i++)
        numbers[i] = N - 1 - i;
    const struct net_batch out = {.images = images, .labels = labels};
    data_batch(&set->train, numbers, N, &out);
    double sum = 0, squares = 0;
    for (size_t i = 0; i < (size_t)N * AREA; i++) {
        sum += images[i];
        squares += (double)images[i] * images[i];
    }
    assert_true(fabs(sum / (N * AREA)) < 1e-5);
    assert_true(fabs(squares / (N * AREA) - 1) < 1e-4);
    for (size_t i = 0; i < N; i++) {
        size_t from = numbers[i] * AREA + 7;
        float wanted = ((float)pixel(from) / 255 - set->train.mean[0]) * set->train.scale[0];
        assert_float_equal(images[i * AREA + 7], wanted, 1e-5);
        assert_int_equal(labels[i], label(numbers[i]));
    }
    data_batch(&set->test, numbers + N - 1, 1, &out);
    assert_float_equal(images[0], (0 - set->train.mean[0]) * set->train.scale[0], 1e-5);
    data_close(set);
    files_end(&files);
}

TEST(bad_idx_folders_are_refused)
{
    (void)state;
    struct files files;
    char spec[256];
    unsigned char bytes[4000];
    files_begin(&files);
    const struct data_options options = {.data = files_spec(&files, "idx", NULL, spec)};
    files_refused(&options, "no file 'train-images-idx3-ubyte'", "");
    put_idx(&files, 20, 5);
    (void)files_put(&files, "t10k-images-idx3-ubyte", bytes, files_idx(bytes, 5, 4, 6, pixel));
    files_refused(&options, "are 1 x 4 x 6", files.folder);
    put_idx(&files, 20, 5);
    (void)files_put(&files, "train-labels-idx1-ubyte.gz", bytes,
                    files_idx(bytes, 20, 0, 0, always_two));
    /* no image has label 1: a gap, named before anything else */
    files_refused(&options, "label 2 is out of range", "offset 8");
    const struct data_options mnist = {.data = files_spec(&files, "mnist", NULL, spec)};
    files_refused(&mnist, "have the label 2", files.folder);
    put_idx(&files, 20, 5);
    (void)files_put(&files, "t10k-labels-idx1-ubyte", bytes, files_idx(bytes, 5, 0, 0, up));
    (void)files_spec(&files, "idx", NULL, spec);
    files_refused(&options, "label 3 is out of range", "t10k-labels-idx1-ubyte, offset 11");
    (void)files_spec(&files, "mnist", NULL, spec);
    (void)files_put(&files, "t10k-labels-idx1-ubyte", bytes,
                    files_idx(bytes, 5, 0, 0, pixel)); /* 0 1 4 9 16 */
    files_refused(&mnist, "label 16 is out of range", "t10k-labels-idx1-ubyte, offset 12");
    files_end(&files);
}

TEST(fashion_mnist_says_which_package_has_it)
{
    (void)state;
    struct data_set *set = NULL;
    tri_error err = {0};
    const struct data_options options = {.data = "fashion-mnist:/nowhere/at/all"};
    assert_int_equal(data_open(&options, &mem_libc, &set, &err), TRI_EINPUT);
    assert_string_equal(err.text, "there is no folder '/nowhere/at/all'");
    assert_non_null(strstr(err.next, "apt-get install dataset-fashion-mnist"));
}

TEST(what_is_no_source_is_refused_with_advice)
{
    (void)state;
    static const struct {
        const char *data, *text, *next;
    } cases[] = {
        {"fashon-mnist", "no kind of data 'fashon-mnist'", "fashion-mnist"},
        {"train.csv", "no kind of data 'train.csv'", "csv:train.csv"},
        {"", "no kind of data ''", "idx:DIR"},
        {"tsv", "does not say where", "tsv:FILE"},
        {"tsv:", "does not say where", "tsv:FILE"},
        {"cifar10", "does not say where", "cifar10:DIR"},
        {"cifar10:/nowhere", "there is no folder '/nowhere'", "cifar10:DIR"},
        {"tsv:/nowhere.tsv", "cannot open '/nowhere.tsv'", "check"},
        {"csv:/tmp", "cannot read '/tmp'", "check"},
        {"mnist:/nowhere", "there is no folder '/nowhere'", "train-images-idx3-ubyte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct data_options options = {.data = cases[i].data};
        struct data_set *set = NULL;
        tri_error err = {0};
        tri_status status = data_open(&options, &mem_libc, &set, &err);
        files_expect(&err, status, cases[i].text, "");
        if (strstr(err.next, cases[i].next) == NULL)
            fail_msg("'%s' has the next step '%s'", cases[i].data, err.next);
    }
}

TEST(mnist_is_found_where_the_environment_says)
{
    (void)state;
    struct files files;
    char *before = getenv("TRIDENT_DATA"), folder[128];
    before = before != NULL ? strdup(before) : NULL;
    files_begin(&files);
    (void)snprintf(folder, sizeof folder, "%s/mnist", files.folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    struct files inner = {0};
    memcpy(inner.folder, folder, sizeof inner.folder - 1);
    put_idx(&inner, 20, 5);
    (void)setenv("TRIDENT_DATA", files.folder, 1);
    const struct data_options options = {.data = "mnist"};
    struct data_set *set = files_open(&options);
    assert_int_equal(set->train.shape.classes, 10);
    assert_int_equal(vocabulary_size(set->train.classes), 10);
    data_close(set);
    (void)unsetenv("TRIDENT_DATA");
    files_refused(&options, "does not say where", "");
    if (before != NULL)
        (void)setenv("TRIDENT_DATA", before, 1);
    free(before);
    files_end(&inner);
    files_end(&files);
}

/* ---- text ---- */

/* A sample's words with spaces between, "#" where unknown. */
static const char *words_of(const struct data *data, size_t sample)
{
    static char out[256];
    size_t len = 0;
    out[0] = '\0';
    for (size_t i = data->starts[sample]; i < data->starts[sample + 1]; i++) {
        const char *word = data->tokens[i] == 1 ? "#" : vocabulary_at(data->words, data->tokens[i]);
        len += (size_t)snprintf(out + len, sizeof out - len, "%s%s", len > 0 ? " " : "", word);
    }
    return out;
}

static const char *label_of(const struct data *data, size_t sample)
{
    return vocabulary_at(data->classes, data->labels[sample]);
}

TEST(a_table_and_its_test_file_share_words_and_labels)
{
    (void)state;
    struct files files;
    char spec[256], test[512];
    files_begin(&files);
    (void)files_text(&files, "a.tsv.gz", "pos\tA good, good film\nneg\tnot good\npos\tyes!\n");
    (void)snprintf(test, sizeof test, "%s",
                   files_text(&files, "b.tsv", "neg\tbad film\npos\tgood one two three four\n"));
    const struct data_options options = {.data = files_spec(&files, "tsv", "a.tsv.gz", spec),
                                         .test = test};
    struct data_set *set = files_open(&options);
    assert_int_equal(set->train.samples, 3);
    assert_int_equal(set->test.samples, 2);
    assert_true(set->train.text && set->test.text);
    assert_int_equal(set->train.shape.length, 5);
    assert_int_equal(set->train.shape.classes, 2);
    /* <pad> <unk> a good , film not yes ! */
    assert_int_equal(set->train.shape.words, 9);
    assert_string_equal(vocabulary_at(set->train.words, 0), "<pad>");
    assert_string_equal(vocabulary_at(set->train.words, 1), "<unk>");
    assert_string_equal(words_of(&set->train, 0), "a good , good film");
    assert_string_equal(words_of(&set->test, 0), "# film");
    assert_string_equal(words_of(&set->test, 1), "good # # # #");
    assert_string_equal(label_of(&set->test, 0), "neg");
    uint32_t tokens[10], labels[2];
    const struct net_batch out = {.tokens = tokens, .labels = labels};
    data_batch(&set->test, (const uint64_t[]){1, 0}, 2, &out);
    const uint32_t wanted[10] = {3, 1, 1, 1, 1, 1, 5, 0, 0, 0};
    assert_memory_equal(tokens, wanted, sizeof wanted);
    assert_int_equal(labels[0], 0);
    assert_int_equal(labels[1], 1);
    data_close(set);
    files_end(&files);
}

TEST(texts_are_cut_to_the_length_asked_for)
{
    (void)state;
    struct files files;
    char spec[256], text[2000] = "a\t";
    files_begin(&files);
    for (int i = 0; i < 300; i++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text), "w%d ", i);
    (void)snprintf(text + strlen(text), sizeof text - strlen(text), "\nb\tend\na\tx y z\n");
    const char *path = files_text(&files, "a.tsv", text);
    const struct data_options by_itself = {.data = files_spec(&files, "tsv", "a.tsv", spec),
                                           .test = path};
    struct data_set *set = files_open(&by_itself);
    assert_int_equal(set->train.shape.length, 256);
    data_close(set);
    const struct data_options cut = {.data = spec, .test = path, .max_length = 2};
    set = files_open(&cut);
    assert_int_equal(set->train.shape.length, 2);
    assert_string_equal(words_of(&set->train, 2), "x y");
    assert_int_equal(set->train.shape.words, 2 + 2 + 1 + 2); /* what is cut is no word */
    data_close(set);
    const struct data_options longer = {.data = spec, .test = path, .max_length = 1000};
    set = files_open(&longer);
    assert_int_equal(set->train.shape.length, 300);
    data_close(set);
    files_end(&files);
}

/* Rows "c<i % 3>\tword<i> all". */
static void put_rows(struct files *files, const char *name, unsigned count)
{
    struct buf text;
    buf_init(&text, &mem_libc);
    for (unsigned i = 0; i < count; i++)
        buf_format(&text, "c%u\tword%u all\n", i % 3, i);
    assert_true(buf_ok(&text));
    (void)files_put(files, name, text.data, text.len);
    buf_fini(&text);
}

TEST(a_tenth_is_held_out_by_seed)
{
    (void)state;
    struct files files;
    char spec[256];
    files_begin(&files);
    put_rows(&files, "a.tsv", 200);
    (void)files_spec(&files, "tsv", "a.tsv", spec);
    const struct data_options one = {.data = spec, .seed = 1}, two = {.data = spec, .seed = 2};
    struct data_set *a = files_open(&one), *b = files_open(&one), *c = files_open(&two);
    assert_int_equal(a->train.samples, 180);
    assert_int_equal(a->test.samples, 20);
    assert_int_equal(a->train.shape.words, 2 + 180 + 1);
    bool same = true;
    for (size_t i = 0; i < 180; i++) {
        char word[40];
        (void)snprintf(word, sizeof word, "%s", words_of(&a->train, i));
        assert_string_equal(word, words_of(&b->train, i));
        same = same && strcmp(word, words_of(&c->train, i)) == 0;
    }
    assert_false(same);
    for (size_t i = 0; i < 20; i++)
        assert_string_equal(words_of(&a->test, i), "# all"); /* held out: never seen */
    data_close(a);
    data_close(b);
    data_close(c);
    files_end(&files);
}

static void check_csv(const struct data_options *options, size_t samples, const char *first_label,
                      const char *first_words)
{
    struct data_set *set = files_open(options);
    assert_int_equal(set->train.samples, samples);
    assert_string_equal(label_of(&set->train, 0), first_label);
    assert_string_equal(words_of(&set->train, 0), first_words);
    data_close(set);
}

TEST(columns_come_from_the_header_the_options_or_their_place)
{
    (void)state;
    struct files files;
    char spec[256];
    files_begin(&files);
    const char *path =
        files_text(&files, "a.csv", "Text,id,LABEL\r\n\"so, yes\",1,p\r\nno,2,n\r\n");
    (void)files_spec(&files, "csv", "a.csv", spec);
    check_csv(&(struct data_options){.data = spec, .test = path}, 2, "p", "so , yes");
    check_csv(&(struct data_options){.data = spec, .test = path, .label_column = 2}, 2, "1",
              "so , yes");
    check_csv(&(struct data_options){.data = spec, .test = path, .header = DATA_HEADER_NO}, 3,
              "Text", "id");
    check_csv(&(struct data_options){.data = spec,
                                     .test = path,
                                     .header = DATA_HEADER_NO,
                                     .label_column = 3,
                                     .text_column = 1},
              3, "LABEL", "text");
    check_csv(&(struct data_options){.data = spec, .test = path, .text_column = 1}, 2, "p",
              "so , yes");
    path = files_text(&files, "b.csv", "kind,words\np,so\nn,no\n");
    (void)files_spec(&files, "csv", "b.csv", spec);
    check_csv(&(struct data_options){.data = spec, .test = path}, 3, "kind", "words");
    check_csv(&(struct data_options){.data = spec, .test = path, .header = DATA_HEADER_YES}, 2, "p",
              "so");
    check_csv(&(struct data_options){.data = spec, .test = path, .text_column = 1}, 3, "words",
              "kind");
    check_csv(&(struct data_options){.data = spec, .test = path, .label_column = 2}, 3, "words",
              "kind");
    const struct data_options same = {.data = spec, .label_column = 1, .text_column = 1};
    files_refused(&same, "cannot be both", "b.csv:1");
    const struct data_options far = {.data = spec, .label_column = 3};
    files_refused(&far, "no column 3 for the label", "b.csv:1");
    files_end(&files);
}

TEST(bad_tables_are_named_by_file_and_line)
{
    (void)state;
    static const struct {
        const char *name, *content, *text, *where;
    } cases[] = {
        {"csv", "p,yes\nn,no\np,a,b\n", "has 3 columns", ":3"},
        {"csv", "p,yes\nn,\"no\n", "never closed", ":2"},
        {"tsv", "", "is empty", ":1"},
        {"tsv", "\n\n", "has no rows", ":3"},
        {"csv", "text,label\n", "has no rows", ":2"},
        {"tsv", "p\tyes\n\tno\n", "the label '' is empty", ":2"},
        {"tsv", "p\tyes\np\tno\n", "have the label 'p'", ", column 1"},
        {"tsv", "1\t2\n2\t2\n3\t2\n4\t2\n5\t2\n6\t2\n7\t2\n8\t2\n9\t2\na\t2\n",
         "each of the 10 rows", ", column 1"},
        {"tsv", "p\t-\nn\t.\n", "have no words", ", column 2"},
        {"tsv", "just text\nwithout tabs\n", "no column 2 for the text", ":1"},
        {"tsv", "p\tcaf\xE9\n", "not UTF-8 text", ":1, offset 5"},
        {"csv",
         "\x7F"
         "ELF\x02\x01\x01,\xFF\xFE",
         "not UTF-8 text", ":1, offset 8"},
    };
    struct files files;
    char spec[256], where[64];
    files_begin(&files);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        (void)files_text(&files, "data", cases[i].content);
        (void)snprintf(where, sizeof where, "/data%s", cases[i].where);
        const struct data_options options = {.data =
                                                 files_spec(&files, cases[i].name, "data", spec)};
        files_refused(&options, cases[i].text, where);
    }
    (void)files_put(&files, "data", "p\tx\0y\n", 6);
    files_refused(&(struct data_options){.data = files_spec(&files, "tsv", "data", spec)},
                  "not UTF-8 text", "/data:1, offset 3");
    files_end(&files);
}

TEST(a_column_that_is_nearly_all_different_is_no_guess_for_labels)
{
    (void)state;
    enum { ROWS = 60 };
    struct files files;
    char table[4000] = "", spec[256];
    size_t len = 0;
    for (int i = 0; i < ROWS; i++) /* 58 numbers of their own, and one of two rows */
        len += (size_t)snprintf(table + len, sizeof table - len, "%d\t%s\n", i < 2 ? 0 : i,
                                i % 2 == 0 ? "yes" : "no");
    files_begin(&files);
    (void)files_put(&files, "n.tsv", table, len);
    struct data_options options = {.data = files_spec(&files, "tsv", "n.tsv", spec)};
    tri_error err = {0};
    struct data_set *set = NULL;
    files_refused(&options, "58 of the 60 rows of", ", column 1");
    assert_int_equal(data_open(&options, &mem_libc, &set, &err), TRI_EINPUT);
    assert_string_equal(err.why, "no header names the columns, so column 1 was taken as the label");
    assert_non_null(strstr(err.next, "--label-column N"));
    options.label_column = 1; /* who says so means it */
    assert_int_equal(data_open(&options, &mem_libc, &set, &err), TRI_OK);
    data_close(set);
    options.label_column = 2;
    assert_int_equal(data_open(&options, &mem_libc, &set, &err), TRI_OK);
    data_close(set);
    files_end(&files);
}

TEST(a_label_too_long_to_be_one_is_refused)
{
    (void)state;
    struct files files;
    char spec[256], text[400];
    files_begin(&files);
    memset(text, 'x', sizeof text);
    memcpy(text + 300, "\tshort\n", 8);
    (void)files_text(&files, "a.tsv", text);
    files_refused(&(struct data_options){.data = files_spec(&files, "tsv", "a.tsv", spec)},
                  "is too long", "a.tsv:1");
    files_end(&files);
}

TEST(a_line_of_100_megabytes_is_refused)
{
    (void)state;
    struct files files;
    struct buf text;
    char spec[256];
    files_begin(&files);
    buf_init(&text, &mem_libc);
    buf_text(&text, "p\tyes\nn\t");
    buf_fill(&text, 'x', (size_t)100 << 20);
    buf_text(&text, "\n");
    (void)files_put(&files, "a.tsv", text.data, text.len);
    buf_fini(&text);
    files_refused(&(struct data_options){.data = files_spec(&files, "tsv", "a.tsv", spec)},
                  "longer than", "a.tsv:2");
    files_end(&files);
}

TEST(bad_test_files_are_refused)
{
    (void)state;
    struct files files;
    char spec[256], test[512];
    files_begin(&files);
    (void)files_text(&files, "a.tsv", "p\tyes\nn\tno\n");
    (void)files_text(&files, "b.tsv", "p\tyes\n\nother\tno\n");
    (void)snprintf(test, sizeof test, "%s", files.path);
    struct data_options options = {.data = files_spec(&files, "tsv", "a.tsv", spec), .test = test};
    files_refused(&options, "the label 'other' is none", "b.tsv:3");
    options.test = "idx:/nowhere";
    files_refused(&options, "holds images, and text is wanted", "/nowhere");
    options.test = "/nowhere.tsv";
    files_refused(&options, "cannot open '/nowhere.tsv'", "");
    put_idx(&files, 20, 5);
    struct data_options images = {.data = files_spec(&files, "idx", NULL, spec), .test = test};
    files_refused(&images, "there are no labels", "b.tsv");
    images.test = "tsv:b.tsv";
    files_refused(&images, "holds text, and images are wanted", "b.tsv");
    files_end(&files);
}

/* ---- for a trained model ---- */

static struct data read_like(const char *spec, const struct data *like, bool unlabelled)
{
    struct data out = {0};
    tri_error err = {0};
    const struct data_options options = {.data = spec, .unlabelled = unlabelled};
    if (data_read(&options, like, &mem_libc, &out, &err) != TRI_OK)
        fail_msg("%s: %s; %s", spec, err.text, err.where);
    return out;
}

static void refuse_like(const char *spec, const struct data *like, const char *text,
                        const char *where)
{
    struct data out = {0};
    tri_error err = {0};
    const struct data_options options = {.data = spec};
    files_expect(&err, data_read(&options, like, &mem_libc, &out, &err), text, where);
    assert_null(out.tokens);
}

/* As a saved model has it: no samples. */
static struct data text_model(void)
{
    static const char *const words[] = {"<pad>", "<unk>", "good", "bad"};
    static const char *const classes[] = {"p", "n"};
    struct data like = {.text = true, .shape = {.length = 3, .words = 4, .classes = 2}};
    assert_int_equal(vocabulary_of(words, 4, &mem_libc, &like.words, NULL), TRI_OK);
    assert_int_equal(vocabulary_of(classes, 2, &mem_libc, &like.classes, NULL), TRI_OK);
    return like;
}

TEST(texts_are_read_with_the_words_of_a_model)
{
    (void)state;
    struct files files;
    char spec[256];
    struct data like = text_model();
    files_begin(&files);
    (void)files_text(&files, "a.tsv", "n\tbad bad film so bad\np\tgood\n");
    struct data data = read_like(files_spec(&files, "tsv", "a.tsv", spec), &like, false);
    assert_int_equal(data.samples, 2);
    assert_string_equal(words_of(&data, 0), "bad bad #");
    assert_string_equal(label_of(&data, 0), "n");
    assert_ptr_equal(data.words, like.words);
    data_fini(&data, &mem_libc);
    assert_null(data.tokens);

    (void)files_text(&files, "a.tsv", "new\tgood\nother\tbad\n");
    refuse_like(spec, &like, "the label 'new'", "a.tsv:1");
    data = read_like(spec, &like, true);
    assert_null(data.labels);
    assert_string_equal(words_of(&data, 1), "bad");
    uint32_t tokens[3], labels[1] = {7};
    const struct net_batch out = {.tokens = tokens, .labels = labels};
    data_batch(&data, (const uint64_t[]){1}, 1, &out);
    assert_int_equal(labels[0], 0);
    data_fini(&data, &mem_libc);

    (void)files_text(&files, "b.csv", "text\n\"good, bad\"\n???\n");
    data = read_like(files_spec(&files, "csv", "b.csv", spec), &like, false);
    assert_int_equal(data.samples, 2);
    assert_null(data.labels);
    assert_string_equal(words_of(&data, 0), "good # bad");
    data_fini(&data, &mem_libc);

    (void)files_text(&files, "c.csv", "id,text\n1,good\n");
    data = read_like(files_spec(&files, "csv", "c.csv", spec), &like, true);
    assert_int_equal(data.samples, 1);
    assert_string_equal(words_of(&data, 0), "good");
    data_fini(&data, &mem_libc);
    files_end(&files);
    vocabulary_free(like.words);
    vocabulary_free(like.classes);
}

TEST(images_are_read_for_a_model_with_and_without_labels)
{
    (void)state;
    struct files files;
    char spec[256];
    unsigned char bytes[4000];
    files_begin(&files);
    put_idx(&files, 20, 5);
    struct data_set *set =
        files_open(&(struct data_options){.data = files_spec(&files, "idx", NULL, spec)});
    struct data data = read_like(spec, &set->train, false);
    assert_int_equal(data.samples, 5);
    assert_non_null(data.labels);
    data_fini(&data, &mem_libc);
    data = read_like(files_spec(&files, "idx", "train-images-idx3-ubyte.gz", spec), &set->train,
                     false);
    assert_int_equal(data.samples, 20);
    assert_int_equal(data.labels[5], 2);
    assert_float_equal(data.mean[0], set->train.mean[0], 0);
    data_fini(&data, &mem_libc);
    data = read_like(spec, &set->train, true);
    assert_null(data.labels);
    data_fini(&data, &mem_libc);
    (void)files_put(&files, "mine", bytes, files_idx(bytes, 3, 6, 4, pixel));
    data = read_like(files_spec(&files, "idx", "mine", spec), &set->train, false);
    assert_int_equal(data.samples, 3);
    assert_null(data.labels);
    data_fini(&data, &mem_libc);
    (void)files_put(&files, "mine", bytes, files_idx(bytes, 3, 6, 5, pixel));
    refuse_like(spec, &set->train, "are 1 x 6 x 5", "mine");
    data_close(set);
    files_end(&files);
}

/* ---- memory ---- */

TEST(opening_survives_refused_memory)
{
    (void)state;
    struct files files;
    char held[256], idx[256], test[512];
    files_begin(&files);
    put_rows(&files, "a.tsv.gz", 30);
    (void)snprintf(test, sizeof test, "%s", files.path);
    put_idx(&files, 20, 5);
    const struct data_options cases[] = {
        {.data = files_spec(&files, "tsv", "a.tsv.gz", held)},
        {.data = held, .test = test},
        {.data = files_spec(&files, "idx", NULL, idx)},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct fault fault = {0};
        FAULT_WALK(&fault)
        {
            struct data_set *set = NULL;
            tri_status status = data_open(&cases[i], &fault.mem, &set, NULL);
            /* refusing to shrink is no failure */
            assert_true(status == TRI_OK || (fault.hit && status == TRI_ENOMEM));
            assert_int_equal(set != NULL, status == TRI_OK);
            data_close(set);
        }
        assert_true(fault.run > 10);
    }
    files_end(&files);
}

/* Counts bytes, most of all at once. */
struct meter {
    size_t now, most;
};

static void *metered(void *ctx, void *ptr, size_t bytes)
{
    struct meter *meter = ctx;
    size_t *old = ptr != NULL ? (size_t *)ptr - 2 : NULL;
    meter->now -= old != NULL ? *old : 0;
    if (bytes == 0) {
        free(old);
        return NULL;
    }
    size_t *got = realloc(old, bytes + 2 * sizeof *got);
    assert_non_null(got);
    *got = bytes;
    meter->now += bytes;
    meter->most = meter->now > meter->most ? meter->now : meter->most;
    return got + 2;
}

TEST(memory_is_a_small_multiple_of_the_data)
{
    (void)state;
    struct files files;
    struct buf text;
    struct meter meter = {0};
    char spec[256];
    const struct mem mem = {.resize = metered, .ctx = &meter};
    files_begin(&files);
    buf_init(&text, &mem_libc);
    for (unsigned i = 0; i < 300000; i++)
        buf_format(&text, "c%u\tword%u and some more of it\n", i % 7, i % 50000);
    buf_text(&text, "c0\t"); /* one long row must not widen all */
    for (unsigned i = 0; i < 10000; i++)
        buf_text(&text, "long ");
    (void)files_put(&files, "a.tsv", text.data, text.len);
    struct data_set *set = NULL;
    const struct data_options options = {.data = files_spec(&files, "tsv", "a.tsv", spec)};
    assert_int_equal(data_open(&options, &mem, &set, NULL), TRI_OK);
    assert_int_equal(set->train.samples + set->test.samples, 300001);
    assert_true(set->train.shape.length >= 6);
    assert_true(meter.most < 6 * text.len);
    data_close(set);
    assert_int_equal(meter.now, 0);
    buf_fini(&text);
    files_end(&files);
}

/* ---- real data, where it is ---- */

static void check_real(const char *kind, const char *name, const char *test_name,
                       const size_t expected[4])
{
    char spec[600];
    char *path = files_real(name), *test = test_name != NULL ? files_real(test_name) : NULL;
    if (path == NULL || (test_name != NULL && test == NULL)) {
        free(path);
        free(test);
        skip();
        return;
    }
    (void)snprintf(spec, sizeof spec, "%s:%s", kind, path);
    struct data_set *set = files_open(&(struct data_options){.data = spec, .test = test});
    assert_int_equal(set->train.samples, expected[0]);
    assert_int_equal(set->test.samples, expected[1]);
    assert_int_equal(set->train.shape.classes, expected[2]);
    if (expected[3] > 0)
        assert_int_equal(set->train.labels[0], expected[3]);
    data_close(set);
    free(path);
    free(test);
}

TEST(real_mnist)
{
    (void)state;
    check_real("mnist", "mnist", NULL, (const size_t[]){60000, 10000, 10, 5});
}

TEST(real_cifar10)
{
    (void)state;
    check_real("cifar10", "cifar10", NULL, (const size_t[]){10000, 10000, 10, 6});
}

TEST(real_trec)
{
    (void)state;
    check_real("tsv", "trec/train.coarse.tsv", "trec/test.coarse.tsv",
               (const size_t[]){5452, 500, 6, 0});
}

TEST(real_mr)
{
    (void)state;
    check_real("tsv", "mr/train.tsv", "mr/test.tsv", (const size_t[]){9596, 1066, 2, 0});
}

TEST(real_banking77)
{
    (void)state;
    check_real("csv", "banking77/train.csv", "banking77/test.csv",
               (const size_t[]){10003, 3080, 77, 0});
    check_real("tsv", "banking77/train.tsv", "banking77/test.tsv",
               (const size_t[]){10003, 3080, 77, 0});
}

TEST(real_tables)
{
    (void)state;
    check_real("tsv", "joule-like/train.tsv", "joule-like/test.tsv",
               (const size_t[]){2392, 897, 299, 0});
    check_real("tsv", "watt-like/train.tsv", "watt-like/test.tsv",
               (const size_t[]){7190, 3595, 3595, 0});
    check_real("tsv", "clinc150/train.tsv", "clinc150/test.tsv",
               (const size_t[]){15100, 5500, 151, 0});
    check_real("tsv", "snips/train.tsv", "snips/test.tsv", (const size_t[]){13784, 700, 7, 0});
    check_real("tsv", "sst5/train.tsv", "sst5/test.tsv", (const size_t[]){8544, 2210, 5, 0});
}

TEST(real_fashion_mnist)
{
    (void)state;
    if (access("/usr/share/datasets/fashion-mnist", R_OK) != 0) {
        print_message("skipped: the package dataset-fashion-mnist is not installed\n");
        skip();
        return;
    }
    struct data_set *set = files_open(&(struct data_options){.data = "fashion-mnist"});
    assert_int_equal(set->train.samples, 60000);
    assert_int_equal(set->test.samples, 10000);
    assert_string_equal(label_of(&set->train, 0), "Ankle boot");
    assert_float_equal(set->train.mean[0], 0.2860, 1e-4);
    assert_float_equal(set->train.scale[0], 2.8329F, 1e-3);
    data_close(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_idx_folder_has_both_parts),
        cmocka_unit_test(batches_are_scaled_by_the_training_part),
        cmocka_unit_test(bad_idx_folders_are_refused),
        cmocka_unit_test(fashion_mnist_says_which_package_has_it),
        cmocka_unit_test(what_is_no_source_is_refused_with_advice),
        cmocka_unit_test(mnist_is_found_where_the_environment_says),
        cmocka_unit_test(a_table_and_its_test_file_share_words_and_labels),
        cmocka_unit_test(texts_are_cut_to_the_length_asked_for),
        cmocka_unit_test(a_tenth_is_held_out_by_seed),
        cmocka_unit_test(columns_come_from_the_header_the_options_or_their_place),
        cmocka_unit_test(bad_tables_are_named_by_file_and_line),
        cmocka_unit_test(a_column_that_is_nearly_all_different_is_no_guess_for_labels),
        cmocka_unit_test(a_label_too_long_to_be_one_is_refused),
        cmocka_unit_test(a_line_of_100_megabytes_is_refused),
        cmocka_unit_test(bad_test_files_are_refused),
        cmocka_unit_test(texts_are_read_with_the_words_of_a_model),
        cmocka_unit_test(images_are_read_for_a_model_with_and_without_labels),
        cmocka_unit_test(opening_survives_refused_memory),
        cmocka_unit_test(memory_is_a_small_multiple_of_the_data),
        cmocka_unit_test(real_mnist),
        cmocka_unit_test(real_cifar10),
        cmocka_unit_test(real_trec),
        cmocka_unit_test(real_mr),
        cmocka_unit_test(real_banking77),
        cmocka_unit_test(real_tables),
        cmocka_unit_test(real_fashion_mnist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
