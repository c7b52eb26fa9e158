/* The JSON beside a model's values: what goes in, and what comes out. */
#include <stdio.h>
#include <string.h>

#include "base/json.h"
#include "base/json_out.h"
#include "engine/data/vocabulary.h"
#include "engine/model_inside.h"

enum { MAX_SIDE = 1 << 16, MAX_LABELS = 1 << 20, MAX_WORDS = 1 << 26, CHANNELS = 3 };

/* ---- writing ---- */

/* Labels that have no name are called by their number. */
static void write_names(struct json_out *json, const char *key, const struct vocabulary *names,
                        uint32_t count)
{
    json_out_array(json, key);
    for (uint32_t i = 0; i < count; i++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%u", (unsigned)i);
        json_out_string(json, NULL, i < vocabulary_size(names) ? vocabulary_at(names, i) : number);
    }
    json_out_close(json);
}

static void write_floats(struct json_out *json, const char *key, const float *floats,
                         uint32_t count)
{
    json_out_array(json, key);
    for (uint32_t i = 0; i < count && i < CHANNELS; i++)
        json_out_number(json, NULL, (double)floats[i]);
    json_out_close(json);
}

static void write_input(struct json_out *json, const struct data *data)
{
    const struct shape3 *image = &data->shape.image;
    json_out_object(json, "input");
    json_out_string(json, "kind", data->text ? "text" : "image");
    if (data->text) {
        json_out_count(json, "length", data->shape.length);
        json_out_count(json, "words", data->shape.words);
    } else {
        json_out_count(json, "channels", image->channels);
        json_out_count(json, "height", image->height);
        json_out_count(json, "width", image->width);
        write_floats(json, "mean", data->mean, image->channels);
        write_floats(json, "scale", data->scale, image->channels);
    }
    json_out_close(json);
}

void meaning_write(const struct model_info *info, const char *values, struct buf *out)
{
    const struct data *data = info->data;
    struct json_out json;
    json_out_init(&json, out, 1);
    json_out_object(&json, NULL);
    json_out_string(&json, "format", MODEL_FORMAT);
    json_out_count(&json, "version", MODEL_VERSION);
    json_out_string(&json, "net", info->model);
    json_out_string(&json, MODEL_VALUES_KEY, values);
    write_input(&json, data);
    json_out_string(&json, "data", info->data_name);
    json_out_number(&json, "test_accuracy", info->test_accuracy);
    json_out_count(&json, "seed", info->seed);
    json_out_count(&json, "iterations", info->iterations);
    write_names(&json, "labels", data->classes, data->shape.classes);
    if (data->text)
        write_names(&json, "words", data->words, (uint32_t)vocabulary_size(data->words));
    json_out_close(&json);
}

/* ---- reading ---- */

struct reader {
    const struct mem *mem;
    struct json json;
    struct buf text;
    struct meaning *out;
    bool format, input, nomem;
};

/* Reads a string that has to be `wanted`. */
static void expect(struct reader *reader, const char *what, const char *wanted)
{
    json_string(&reader->json, &reader->text);
    if (strcmp(buf_string(&reader->text), wanted) != 0)
        json_refuse(&reader->json, reader->json.value, "the %s is not '%s'", what, wanted);
}

static void read_names(struct reader *reader, struct vocabulary **names, uint32_t most)
{
    struct json *json = &reader->json;
    json_array(json);
    size_t at = json->value;
    if (*names != NULL)
        json_refuse(json, at, "'%s' is there twice", json->key);
    else
        *names = vocabulary_new(reader->mem);
    reader->nomem |= *names == NULL;
    while (!reader->nomem && json_element(json)) {
        size_t count = vocabulary_size(*names);
        json_string(json, &reader->text);
        uint32_t number = VOCABULARY_NONE;
        if (json->status != TRI_OK)
            break;
        if (buf_ok(&reader->text))
            number = vocabulary_add(*names, buf_string(&reader->text), reader->text.len);
        reader->nomem |= number == VOCABULARY_NONE;
        if (!reader->nomem && (number != count || count >= most))
            json_refuse(json, json->value, "'%.60s' is %s", buf_string(&reader->text),
                        number != count ? "there twice" : "one name too many");
    }
}

static void read_floats(struct json *json, float *floats)
{
    uint32_t count = 0;
    json_array(json);
    while (json_element(json)) {
        double value = json_between(json, -1e30, 1e30);
        if (count == CHANNELS)
            json_refuse(json, json->value, "an image has more than %d channels", CHANNELS);
        else
            floats[count++] = (float)value;
    }
}

static uint32_t read_side(struct json *json, uint32_t max)
{
    return (uint32_t)json_count(json, 1, max);
}

static void read_input_key(struct reader *reader)
{
    struct json *json = &reader->json;
    struct data *data = &reader->out->data;
    struct net_data *shape = &data->shape;
    if (strcmp(json->key, "kind") == 0) {
        json_string(json, &reader->text);
        data->text = strcmp(buf_string(&reader->text), "text") == 0;
        if (!data->text && strcmp(buf_string(&reader->text), "image") != 0)
            json_refuse(json, json->value, "'kind' is neither 'text' nor 'image'");
    } else if (strcmp(json->key, "length") == 0) {
        shape->length = read_side(json, MAX_SIDE);
    } else if (strcmp(json->key, "words") == 0) {
        shape->words = read_side(json, MAX_WORDS);
    } else if (strcmp(json->key, "channels") == 0) {
        shape->image.channels = read_side(json, CHANNELS);
    } else if (strcmp(json->key, "height") == 0) {
        shape->image.height = read_side(json, MAX_SIDE);
    } else if (strcmp(json->key, "width") == 0) {
        shape->image.width = read_side(json, MAX_SIDE);
    } else if (strcmp(json->key, "mean") == 0) {
        read_floats(json, data->mean);
    } else if (strcmp(json->key, "scale") == 0) {
        read_floats(json, data->scale);
    } else {
        json_skip(json);
    }
}

static void read_input(struct reader *reader)
{
    struct json *json = &reader->json;
    const struct net_data *shape = &reader->out->data.shape;
    json_object(json);
    size_t at = json->value;
    while (json_member(json))
        read_input_key(reader);
    bool image = shape->image.channels > 0 && shape->image.height > 0 && shape->image.width > 0;
    bool text = shape->length > 0 && shape->words > 0;
    if (reader->out->data.text ? !text || image : !image || text)
        json_refuse(json, at,
                    "'input' is neither an image with channels, height and width nor a "
                    "text with length and words");
    reader->input = true;
}

static void read_key(struct reader *reader)
{
    struct json *json = &reader->json;
    struct meaning *out = reader->out;
    if (strcmp(json->key, "format") == 0) {
        expect(reader, "format", MODEL_FORMAT);
        reader->format = true;
    } else if (strcmp(json->key, "version") == 0) {
        (void)json_count(json, MODEL_VERSION, MODEL_VERSION);
        json_advise(json, "use a trident that is as new as the one that wrote the model");
    } else if (strcmp(json->key, "net") == 0) {
        json_string(json, &out->net);
    } else if (strcmp(json->key, MODEL_VALUES_KEY) == 0) {
        json_string(json, &reader->text);
        (void)snprintf(out->values, sizeof out->values, "%s", buf_string(&reader->text));
    } else if (strcmp(json->key, "input") == 0) {
        read_input(reader);
    } else if (strcmp(json->key, "labels") == 0) {
        read_names(reader, &out->data.classes, MAX_LABELS);
    } else if (strcmp(json->key, "words") == 0) {
        read_names(reader, &out->data.words, MAX_WORDS);
    } else {
        json_skip(json);
    }
}

/* What every model needs. */
static void check(struct reader *reader)
{
    struct json *json = &reader->json;
    struct meaning *out = reader->out;
    const char *missing = !reader->format                          ? "format"
                          : out->net.len == 0                      ? "net"
                          : !reader->input                         ? "input"
                          : vocabulary_size(out->data.classes) < 1 ? "labels"
                                                                   : NULL;
    if (out->data.text && vocabulary_size(out->data.words) == 0)
        missing = "words";
    if (missing != NULL)
        json_refuse(json, 0, "there is no '%s'", missing);
    if (vocabulary_size(out->data.words) > out->data.shape.words)
        json_refuse(json, 0, "there are %zu words, and %u in 'input'",
                    vocabulary_size(out->data.words), (unsigned)out->data.shape.words);
    out->data.shape.classes = (uint32_t)vocabulary_size(out->data.classes);
}

tri_status meaning_read(const char *path, const struct buf *text, const struct mem *mem,
                        struct meaning *out, tri_error *err)
{
    struct reader reader = {.mem = mem, .out = out};
    *out = (struct meaning){0};
    buf_init(&out->net, mem);
    buf_init(&reader.text, mem);
    json_open(&reader.json, path, buf_string(text), text->len, err);
    json_object(&reader.json);
    while (!reader.nomem && json_member(&reader.json)) {
        read_key(&reader);
        reader.nomem |= !buf_ok(&reader.text) || !buf_ok(&out->net);
    }
    if (!reader.nomem) {
        json_end(&reader.json);
        check(&reader);
    }
    tri_status status = reader.json.status;
    if (reader.nomem)
        status = fail_nomem(err, "a model");
    else if (status != TRI_OK)
        json_advise(&reader.json, "this is the file that trident train --out writes beside the "
                                  "values; train the model again");
    buf_fini(&reader.text);
    if (status != TRI_OK)
        meaning_fini(out);
    return status;
}

void meaning_fini(struct meaning *meaning)
{
    vocabulary_free(meaning->data.words);
    vocabulary_free(meaning->data.classes);
    if (meaning->net.mem != NULL)
        buf_fini(&meaning->net);
    *meaning = (struct meaning){0};
}
