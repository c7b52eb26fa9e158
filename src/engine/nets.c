/* The nets that can be trained, by name and sizes. */
#include <stdio.h>
#include <string.h>

#include "base/names.h"
#include "base/units.h"
#include "engine/build.h"

enum { SIZES = 6, NAME = 32, TEXT = 200 };

/* One number of a net that users may set: "filters=300". */
struct size_row {
    const char *name;
    double fallback, least, most;
};

struct row {
    struct net_model model;
    struct size_row sizes[SIZES]; /* ends with a NULL name */
    void (*build)(struct build *build, const double *sizes);
};

/* ---- images ---- */

/* sizes: width, layers */
static void build_mlp(struct build *build, const double *sizes)
{
    char name[NAME];
    (void)build_image(build);
    for (unsigned i = 1; i <= (unsigned)sizes[1]; i++) {
        (void)snprintf(name, sizeof name, "fc%u", i);
        (void)build_fc(build, name, (uint32_t)sizes[0], true);
    }
    (void)build_fc(build, "out", build->data->classes, false);
}

static void build_lenet(struct build *build, const double *sizes)
{
    static const struct op_pool pool = {.kernel = 2, .stride = 2, .ceil = true};
    struct op_conv conv = {.filters = 20, .kernel = 5, .stride = 1, .bias = true, .relu = true};
    (void)sizes;
    (void)build_image(build);
    (void)build_conv(build, "conv1", NULL, &conv);
    (void)build_pool(build, "pool1", &pool);
    conv.filters = 50;
    (void)build_conv(build, "conv2", NULL, &conv);
    (void)build_pool(build, "pool2", &pool);
    (void)build_fc(build, "ip1", 500, true);
    (void)build_fc(build, "ip2", build->data->classes, false);
}

/* Caffe's. Its relu stands behind the first pooling, which is a maximum: the same thing. */
static void build_cifar10_quick(struct build *build, const double *sizes)
{
    static const struct op_pool max = {.kernel = 3, .stride = 2, .ceil = true};
    static const struct op_pool average = {.average = true, .kernel = 3, .stride = 2, .ceil = true};
    struct op_conv conv = {
        .filters = 32, .kernel = 5, .stride = 1, .pad = 2, .bias = true, .relu = true};
    (void)sizes;
    (void)build_image(build);
    (void)build_conv(build, "conv1", NULL, &conv);
    (void)build_pool(build, "pool1", &max);
    (void)build_conv(build, "conv2", NULL, &conv);
    (void)build_pool(build, "pool2", &average);
    conv.filters = 64;
    (void)build_conv(build, "conv3", NULL, &conv);
    (void)build_pool(build, "pool3", &average);
    (void)build_fc(build, "ip1", 64, false);
    (void)build_fc(build, "ip2", build->data->classes, false);
}

static struct op *conv_norm(struct build *build, const char *name, struct op *in,
                            const struct op_conv *conv, bool relu)
{
    char norm[NAME];
    (void)snprintf(norm, sizeof norm, "%.24s.bn", name);
    (void)build_conv(build, name, in, conv);
    return build_norm(build, norm, relu);
}

/* Two convolutions around which the input goes unchanged, or, where the size changes, by a
 * convolution of one pixel. */
static struct op *residual(struct build *build, unsigned stage, unsigned block, struct op *in)
{
    char first[NAME], second[NAME], side[NAME], sum[NAME];
    (void)snprintf(first, sizeof first, "s%ub%u.conv1", stage, block);
    (void)snprintf(second, sizeof second, "s%ub%u.conv2", stage, block);
    (void)snprintf(side, sizeof side, "s%ub%u.side", stage, block);
    (void)snprintf(sum, sizeof sum, "s%ub%u.sum", stage, block);
    bool smaller = stage > 1 && block == 1;
    struct op_conv conv = {
        .filters = 8U << stage, .kernel = 3, .stride = smaller ? 2 : 1, .pad = 1};
    (void)conv_norm(build, first, in, &conv, true);
    conv.stride = 1;
    struct op *out = conv_norm(build, second, NULL, &conv, false), *around = in;
    if (smaller) {
        struct op_conv one = {.filters = conv.filters, .kernel = 1, .stride = 2};
        around = conv_norm(build, side, in, &one, false);
    }
    return build_add(build, sum, out, around, true);
}

static void build_resnet(struct build *build, const double *sizes)
{
    static const struct op_conv conv = {.filters = 16, .kernel = 3, .stride = 1, .pad = 1};
    unsigned blocks = (unsigned)sizes[0];
    (void)build_image(build);
    struct op *at = conv_norm(build, "conv1", NULL, &conv, true);
    for (unsigned stage = 1; stage <= 3; stage++)
        for (unsigned block = 1; block <= blocks; block++)
            at = residual(build, stage, block, at);
    if (at == NULL)
        return;
    struct op_pool all = {.average = true, .kernel = at->out.shape.height, .stride = 1};
    (void)build_pool(build, "pool", &all);
    (void)build_fc(build, "out", build->data->classes, false);
}

/* ---- text ---- */

/* GaDei's: words to vectors, filters over 3, 4 and 5 words, a hidden layer. sizes: embed, filters,
 * hidden (0: none, as Kim has it), dropout. */
static void build_textcnn(struct build *build, const double *sizes)
{
    struct op *branches[3];
    (void)build_tokens(build);
    struct op *words = build_embed(build, "embed", (uint32_t)sizes[0]);
    for (uint32_t i = 0; i < 3; i++) {
        char name[NAME];
        (void)snprintf(name, sizeof name, "conv_w%u", (unsigned)i + 3);
        branches[i] = build_textconv(build, name, words, (uint32_t)sizes[1], i + 3);
    }
    (void)build_concat(build, "features", branches, 3);
    if (sizes[2] > 0)
        (void)build_fc(build, "fc_hidden", (uint32_t)sizes[2], true);
    if (sizes[3] > 0)
        (void)build_dropout(build, "dropout", (float)sizes[3]);
    (void)build_fc(build, "fc_labels", build->data->classes, false);
}

/* ---- the table ---- */

static const struct row rows[] = {
    {{"mlp", "fully connected layers with relu", "mlp:WIDTHxLAYERS, or width=, layers=", false},
     {{"width", 256, 1, 65536}, {"layers", 2, 1, 1000}},
     build_mlp},
    {{"lenet", "two convolutions, two fully connected layers, for small grey images", "", false},
     {{NULL, 0, 0, 0}},
     build_lenet},
    {{"cifar10-quick", "three convolutions of Caffe's example", "", false},
     {{NULL, 0, 0, 0}},
     build_cifar10_quick},
    {{"resnet20", "residual net with batch normalisation", "blocks= (of each stage, 3)", false},
     {{"blocks", 3, 1, 100}},
     build_resnet},
    {{"textcnn", "words, filters over 3, 4 and 5 of them, a hidden layer (GaDei)",
      "embed=, filters=, hidden=, dropout=", true},
     {{"embed", 120, 1, 4096},
      {"filters", 300, 1, 16384},
      {"hidden", 900, 0, 65536},
      {"dropout", 0.5, 0, 0.95}},
     build_textcnn},
};

const struct net_model *net_model_at(size_t i)
{
    return i < sizeof rows / sizeof rows[0] ? &rows[i].model : NULL;
}

static const char *model_name(const void *ctx, size_t i)
{
    (void)ctx;
    return i < sizeof rows / sizeof rows[0] ? rows[i].model.name : NULL;
}

static const char *size_name(const void *ctx, size_t i)
{
    const struct row *row = ctx;
    return i < SIZES ? row->sizes[i].name : NULL;
}

/* ---- sizes ---- */

static tri_status fail_size(const struct row *row, const char *text, tri_error *err)
{
    fail(err, TRI_EINPUT, "'%.60s' is no size of the model '%s'", text, row->model.name);
    if (row->model.sizes[0] != '\0')
        fail_next(err, "it takes %s", row->model.sizes);
    else
        fail_next(err, "it has none: write '%s'", row->model.name);
    return TRI_EINPUT;
}

static tri_status read_size(const struct row *row, char *text, double *sizes, tri_error *err)
{
    char *value = strchr(text, '=');
    char advice[NAMES_TEXT];
    if (value == NULL)
        return fail_size(row, text, err);
    *value++ = '\0';
    size_t i = 0;
    while (i < SIZES && row->sizes[i].name != NULL && !names_equal(row->sizes[i].name, text))
        i++;
    if (i == SIZES || row->sizes[i].name == NULL) {
        (void)fail_size(row, text, err);
        if (names_suggest(text, size_name, row, advice))
            fail_next(err, "did you mean %s?", advice);
        return TRI_EINPUT;
    }
    const struct size_row *size = &row->sizes[i];
    if (!units_number(value, &sizes[i]) || sizes[i] < size->least || sizes[i] > size->most) {
        fail(err, TRI_EINPUT, "%s '%.40s' of the model '%s' is not between %g and %g", size->name,
             value, row->model.name, size->least, size->most);
        return TRI_EINPUT;
    }
    return TRI_OK;
}

/* "4096x4" */
static bool read_pair(const char *text, double *sizes)
{
    char copy[TEXT];
    (void)snprintf(copy, sizeof copy, "%s", text);
    char *cross = strchr(copy, 'x');
    uint64_t width, layers;
    if (cross == NULL)
        return false;
    *cross++ = '\0';
    if (!units_count(copy, &width) || !units_count(cross, &layers))
        return false;
    sizes[0] = (double)width;
    sizes[1] = (double)layers;
    return width >= 1 && width <= 65536 && layers >= 1 && layers <= 1000;
}

static tri_status read_sizes(const struct row *row, const char *text, double *sizes, tri_error *err)
{
    char copy[TEXT], *at = copy;
    for (size_t i = 0; i < SIZES; i++)
        sizes[i] = row->sizes[i].fallback;
    if (text == NULL)
        return TRI_OK;
    if (row->build == build_mlp && strchr(text, '=') == NULL)
        return read_pair(text, sizes) ? TRI_OK : fail_size(row, text, err);
    if (strlen(text) >= sizeof copy)
        return fail_size(row, text, err);
    (void)snprintf(copy, sizeof copy, "%s", text);
    while (at != NULL) {
        char *comma = strchr(at, ',');
        if (comma != NULL)
            *comma++ = '\0';
        tri_status status = read_size(row, at, sizes, err);
        if (status != TRI_OK)
            return status;
        at = comma;
    }
    return TRI_OK;
}

/* ---- choosing ---- */

static const struct row *find(const char *model, tri_error *err)
{
    char name[NAME + 1], advice[NAMES_TEXT];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(model, ":"), model);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (names_equal(rows[i].model.name, name))
            return &rows[i];
    fail(err, TRI_EINPUT, "there is no model '%s' to train", name);
    names_advise(name, model_name, NULL, advice);
    fail_next(err, "%s", advice);
    return NULL;
}

static tri_status check_data(const struct row *row, const struct net_data *data, tri_error *err)
{
    bool text = data->length > 0;
    if (row->model.text == text)
        return TRI_OK;
    fail(err, TRI_EINPUT, "the model '%s' takes %s, and the data is %s", row->model.name,
         text ? "images" : "text", text ? "text" : "images");
    fail_next(err, "%s", text ? "use textcnn" : "use lenet, cifar10-quick, resnet20 or mlp");
    return TRI_EINPUT;
}

tri_status nets_build(struct build *build, const char *model)
{
    double sizes[SIZES] = {0};
    const struct row *row = find(model, build->err);
    if (row == NULL)
        return TRI_EINPUT;
    const char *colon = strchr(model, ':');
    tri_status status = read_sizes(row, colon != NULL ? colon + 1 : NULL, sizes, build->err);
    if (status == TRI_OK)
        status = check_data(row, build->data, build->err);
    if (status != TRI_OK)
        return status;
    row->build(build, sizes);
    build_loss(build);
    return build->status;
}
