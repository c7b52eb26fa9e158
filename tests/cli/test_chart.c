/* Charts: whatever the numbers and texts, the SVG is well formed and all of it is inside the
 * picture; ticks are round; what is drawn is what was given. */
#include "cli/chart.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/utf8.h"
#include "lib/test.h"

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

/* ---- a tiny checker of XML ---- */

enum { MAX_DEPTH = 8, NAME_TEXT = 24 };

static bool name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
}

/* Copies the name at *at and steps over it. */
static void take_name(const char **at, char name[NAME_TEXT])
{
    size_t len = 0;
    while (name_char((*at)[len]))
        len++;
    assert_in_range(len, 1, NAME_TEXT - 1);
    memcpy(name, *at, len);
    name[len] = '\0';
    *at += len;
}

/* Every number of an attribute that holds coordinates is plain and inside the picture. */
static void check_coordinates(const char *name, const char *value, size_t len)
{
    static const char *const names[] = {"x",  "y", "x1",     "y1", "x2",        "y2",    "cx",
                                        "cy", "d", "points", "r",  "transform", "width", "height"};
    bool coordinates = false;
    int most = name[0] == 'y' || strcmp(name, "cy") == 0 ? CHART_HEIGHT : CHART_WIDTH;
    for (size_t i = 0; i < COUNT(names); i++)
        coordinates = coordinates || strcmp(name, names[i]) == 0;
    if (!coordinates)
        return;
    if (strcmp(name, "transform") == 0) {
        assert_memory_equal(value, "rotate(-", 8);
        value += 8;
        len -= 9; /* and the bracket */
    }
    assert_int_equal(strspn(value, "ML0123456789. "), len);
    for (const char *at = value; at < value + len;) {
        char *end;
        if (*at == 'M' || *at == 'L' || *at == ' ') {
            at++;
            continue;
        }
        double number = strtod(at, &end);
        assert_true(number >= 0 && number <= most);
        const char *point = memchr(at, '.', (size_t)(end - at));
        assert_true(point == NULL || end - point == 2); /* tenths of a pixel */
        at = end;
    }
}

static void check_attributes(const char **at)
{
    char name[NAME_TEXT];
    while (**at == ' ') {
        ++*at;
        take_name(at, name);
        assert_int_equal(**at, '=');
        char quote = *++*at;
        assert_true(quote == '\'' || quote == '"');
        ++*at;
        const char *end = strchr(*at, quote);
        assert_non_null(end);
        assert_null(memchr(*at, '<', (size_t)(end - *at)));
        assert_null(memchr(*at, '&', (size_t)(end - *at)));
        check_coordinates(name, *at, (size_t)(end - *at));
        *at = end + 1;
    }
}

static void check_entity(const char *at)
{
    static const char *const entities[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#215;"};
    bool known = false;
    for (size_t i = 0; i < COUNT(entities); i++)
        known = known || strncmp(at, entities[i], strlen(entities[i])) == 0;
    assert_true(known);
}

/* One tag at `at`, which is behind its '<'; returns what is behind it. */
static const char *check_tag(const char *at, char stack[MAX_DEPTH][NAME_TEXT], size_t *depth)
{
    char name[NAME_TEXT];
    bool closing = *at == '/';
    at += closing;
    take_name(&at, name);
    if (closing) {
        assert_true(*depth > 0);
        assert_string_equal(stack[--*depth], name);
    } else {
        check_attributes(&at);
        if (*at == '/') {
            assert_int_equal(at[1], '>');
            return at + 2;
        }
        assert_true(*depth < MAX_DEPTH);
        memcpy(stack[(*depth)++], name, NAME_TEXT);
    }
    assert_int_equal(*at, '>');
    return at + 1;
}

static void check_svg(const char *text)
{
    char stack[MAX_DEPTH][NAME_TEXT];
    size_t depth = 0, len = strlen(text);
    assert_memory_equal(text, "<svg ", 5);
    assert_string_equal(text + len - 7, "</svg>\n");
    for (size_t at = 0, n; at < len; at += n) {
        n = utf8_length(text + at, len - at);
        assert_true(n > 0);
        assert_true((unsigned char)text[at] >= 0x20 || text[at] == '\n');
        assert_int_not_equal(text[at], 0x7F);
    }
    for (const char *at = text; *at != '\0';) {
        if (*at == '<') {
            at = check_tag(at + 1, stack, &depth);
            assert_true(depth > 0 || strcmp(at, "\n") == 0); /* one root */
            continue;
        }
        if (*at == '&')
            check_entity(at);
        assert_int_not_equal(*at, '>');
        at++;
    }
    assert_int_equal(depth, 0);
}

/* ---- looking into a chart ---- */

/* The chart's text, checked; must be freed. */
static char *draw(const struct chart *chart)
{
    struct buf out;
    buf_init(&out, &mem_libc);
    chart_svg(chart, &out);
    assert_true(buf_ok(&out));
    assert_int_equal(strlen(out.data), out.len);
    check_svg(out.data);
    return out.data;
}

static size_t count_of(const char *text, const char *what)
{
    size_t count = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at += strlen(what))
        count++;
    return count;
}

/* A copy of the nth group of that class, up to its end; must be freed. */
static char *group_of(const char *text, const char *class, size_t n)
{
    char begin[40];
    (void)snprintf(begin, sizeof begin, "<g class='%s'>", class);
    const char *at = strstr(text, begin);
    for (; n > 0; n--)
        at = strstr(at + 1, begin);
    assert_non_null(at);
    const char *end = strstr(at, "</g>");
    assert_non_null(end);
    char *copy = strndup(at, (size_t)(end - at));
    assert_non_null(copy);
    return copy;
}

/* The texts of that class, each followed by a blank, tags within them left out. */
static void texts_of(const char *text, const char *class, char out[256])
{
    char begin[40];
    size_t len = 0;
    (void)snprintf(begin, sizeof begin, "<text class='%s'", class);
    for (const char *at = text; (at = strstr(at, begin)) != NULL;) {
        for (; strncmp(at, "</text>", 7) != 0; at++) {
            if (*at == '<')
                at = strchr(at, '>');
            else
                out[len++] = *at;
            assert_true(len < 255);
        }
        out[len++] = ' ';
    }
    out[len] = '\0';
}

/* The number of attribute `name` of the nth `element` in the text. */
static double number_of(const char *text, const char *element, size_t n, const char *name)
{
    char begin[40], attribute[40];
    (void)snprintf(begin, sizeof begin, "<%s ", element);
    (void)snprintf(attribute, sizeof attribute, " %s='", name);
    const char *at = text;
    for (size_t i = 0; i <= n && at != NULL; i++)
        at = strstr(at + (i > 0), begin);
    at = at != NULL ? strstr(at, attribute) : NULL;
    assert_non_null(at);
    return at != NULL ? strtod(at + strlen(attribute), NULL) : NAN;
}

static const double nodes[] = {1, 2, 4, 8, 16, 32};
static const double speeds[] = {1, 1.9, 3.9, 7.6, 15.1, 29.8};

/* ---- the axes ---- */

TEST(ticks_are_round_numbers_around_the_values)
{
    (void)state;
    static const struct {
        double low, high;
        bool from_zero;
        const char *ticks, *power;
    } cases[] = {
        {0, 32, true, "0 5 10 15 20 25 30 35 ", ""},
        {3, 7, true, "0 1 2 3 4 5 6 7 ", ""},
        {3, 7, false, "3.0 3.5 4.0 4.5 5.0 5.5 6.0 6.5 7.0 ", ""},
        {0.1, 0.3, true, "0 0.05 0.10 0.15 0.20 0.25 0.30 ", ""},
        {0, 1, false, "0 0.2 0.4 0.6 0.8 1.0 ", ""},
        {-4, 12, false, "-4 -2 0 2 4 6 8 10 12 ", ""},
        {-0.5, -0.1, true, "-0.5 -0.4 -0.3 -0.2 -0.1 0 ", ""},
        {-8, -1, true, "-8 -7 -6 -5 -4 -3 -2 -1 0 ", ""},
        {0, 999999, false, "0 200000 400000 600000 800000 1000000 ", ""},
        {0, 575e6, false, "0 100 200 300 400 500 600 ", "&#215;106 "},
        {0, 2e9, false, "0 0.5 1.0 1.5 2.0 ", "&#215;109 "},
        {1e-5, 4e-5, true, "0 5 10 15 20 25 30 35 40 ", "&#215;10-6 "},
        {-DBL_MAX, DBL_MAX, false, "-200 -150 -100 -50 0 50 100 150 200 ", "&#215;10306 "},
        {0, 0, false, "0 0.2 0.4 0.6 0.8 1.0 ", ""},
        {0, DBL_TRUE_MIN, false, "0 0.2 0.4 0.6 0.8 1.0 ", ""},
        {5, 5, false, "2 3 4 5 6 7 8 ", ""},
        {5, 5, true, "0 1 2 3 4 5 ", ""},
        {-5, -5, false, "-8 -7 -6 -5 -4 -3 -2 ", ""},
        {1e9, 1e9 + 1e-3, false, "0.4 0.6 0.8 1.0 1.2 1.4 1.6 ", "&#215;109 "},
        {1000, 1000.004, false,
         "1000.0000 1000.0005 1000.0010 1000.0015 1000.0020 1000.0025 "
         "1000.0030 1000.0035 1000.0040 ",
         ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const double x[] = {1, 2}, y[] = {cases[i].low, cases[i].high};
        struct chart_series series = {.x = x, .y = y, .count = 2};
        char *text = draw(&(struct chart){
            .series = &series, .series_count = 1, .y_from_zero = cases[i].from_zero});
        char ticks[256], power[256];
        texts_of(text, "ytick", ticks);
        texts_of(text, "power", power);
        assert_string_equal(ticks, cases[i].ticks);
        assert_string_equal(power, cases[i].power);
        free(text);
    }
}

TEST(a_logarithmic_axis_has_ticks_at_powers_of_two)
{
    (void)state;
    static const struct {
        double low, high;
        const char *ticks;
    } cases[] = {
        {1, 32, "1 2 4 8 16 32 "},
        {3, 24, "2 4 8 16 32 "},
        {8, 8, "4 8 16 "},
        {0.0625, 2, "0.0625 0.125 0.25 0.5 1 2 "},
        {1, 65536, "1 4 16 64 256 1024 4096 16384 65536 "},
        {1, 131072, "20 22 24 26 28 210 212 214 216 "}, /* raised exponents */
        {1e-300, 1e300, "2-768 2-512 2-256 20 2256 2512 2768 "},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        const double x[] = {cases[i].low, cases[i].high}, y[] = {1, 2};
        struct chart_series series = {.x = x, .y = y, .count = 2};
        char *text = draw(&(struct chart){.series = &series, .series_count = 1, .x_log2 = true});
        char ticks[256];
        texts_of(text, "xtick", ticks);
        assert_string_equal(ticks, cases[i].ticks);
        free(text);
    }
}

TEST(the_text_of_the_last_tick_is_not_cut_by_the_edge)
{
    (void)state;
    const double x[] = {0, 999999}, y[] = {1, 2};
    struct chart_series series = {.x = x, .y = y, .count = 2};
    char *text = draw(&(struct chart){.series = &series, .series_count = 1});
    const char *last = strstr(text, ">1000000</text>");
    assert_non_null(last);
    while (*last != '<')
        last--;
    assert_true(number_of(last, "text", 0, "x") + 25 <= CHART_WIDTH); /* half of seven digits */
    free(text);
}

TEST(powers_of_two_are_equally_far_apart)
{
    (void)state;
    struct chart_series series = {.x = nodes, .y = speeds, .count = COUNT(nodes)};
    char *text = draw(&(struct chart){.series = &series, .series_count = 1, .x_log2 = true});
    char *points = group_of(text, "series", 0);
    double step = number_of(points, "circle", 1, "cx") - number_of(points, "circle", 0, "cx");
    for (size_t i = 1; i < COUNT(nodes); i++)
        assert_true(fabs(number_of(points, "circle", i, "cx") -
                         number_of(points, "circle", i - 1, "cx") - step) < 0.25);
    free(points);
    free(text);
}

/* ---- lines ---- */

TEST(a_value_that_is_none_leaves_a_gap_in_the_line)
{
    (void)state;
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < COUNT(bad); i++) {
        const double x[] = {1, 2, 3, 4, 5}, y[] = {1, 2, bad[i], 4, 5};
        struct chart_series series[] = {{.x = x, .y = y, .count = 5}, {.x = y, .y = x, .count = 5}};
        char *text = draw(&(struct chart){.series = series, .series_count = 2});
        char *line = group_of(text, "series", 0);
        assert_int_equal(count_of(line, "M"), 2);
        assert_int_equal(count_of(line, "L"), 2);
        assert_int_equal(count_of(line, "<circle"), 4);
        free(line);
        line = group_of(text, "series", 1);
        assert_int_equal(count_of(line, "M"), 2);
        assert_int_equal(count_of(line, "<polygon"), 4);
        free(line);
        free(text);
    }
}

TEST(a_point_without_neighbours_still_has_its_marker)
{
    (void)state;
    double x[100], y[100];
    for (size_t i = 0; i < 100; i++) {
        x[i] = (double)i;
        y[i] = i == 33 ? 1 : NAN;
    }
    struct chart_series series = {.x = x, .y = y, .count = 100};
    char *text = draw(&(struct chart){.series = &series, .series_count = 1});
    assert_int_equal(count_of(text, "<circle"), 1);
    assert_int_equal(count_of(text, "<path"), 0);
    free(text);
}

TEST(a_long_line_is_not_hidden_under_its_markers)
{
    (void)state;
    double x[1000];
    for (size_t i = 0; i < 1000; i++)
        x[i] = (double)i;
    struct chart_series series[] = {{.x = x, .y = x, .count = 1000},
                                    {.x = x, .y = x, .count = 1000, .points_only = true}};
    char *text = draw(&(struct chart){.series = series, .series_count = 2});
    char *line = group_of(text, "series", 0);
    assert_in_range(count_of(line, "<circle"), 10, 24);
    assert_int_equal(count_of(line, "L"), 999);
    free(line);
    line = group_of(text, "series", 1);
    assert_int_equal(count_of(line, "<polygon"), 1000);
    free(line);
    free(text);
}

TEST(x_that_is_not_positive_is_left_out_of_a_logarithmic_axis)
{
    (void)state;
    const double x[] = {-1, 0, 1, 2}, y[] = {1, 2, 3, 4};
    struct chart_series series = {.x = x, .y = y, .count = 4};
    char *text = draw(&(struct chart){.series = &series, .series_count = 1, .x_log2 = true});
    assert_int_equal(count_of(text, "<circle"), 2);
    free(text);
}

TEST(points_only_draws_hollow_markers_and_no_line)
{
    (void)state;
    struct chart_series series[] = {
        {.name = "ours", .x = nodes, .y = speeds, .count = COUNT(nodes)},
        {.name = "paper", .x = nodes, .y = speeds, .count = 3, .points_only = true, .style = 1}};
    char *text = draw(&(struct chart){.series = series, .series_count = 2});
    char *ours = group_of(text, "series", 0), *paper = group_of(text, "series", 1);
    assert_int_equal(count_of(ours, "<path"), 1);
    assert_int_equal(count_of(ours, "<circle"), COUNT(nodes));
    assert_int_equal(count_of(paper, "<path"), 0);
    assert_int_equal(count_of(paper, "<line"), 0);
    assert_int_equal(count_of(paper, "<circle"), 3);
    /* style 1: the colour of the first series, around white */
    assert_int_equal(count_of(paper, "fill='#ffffff' stroke='#0072b2'"), 3);
    assert_int_equal(count_of(ours, "fill='#0072b2' stroke='#ffffff'"), COUNT(nodes));
    free(ours);
    free(paper);
    free(text);
}

TEST(the_diagonal_is_y_equals_x_up_to_where_it_is_asked)
{
    (void)state;
    struct chart_series series = {.name = "a", .x = nodes, .y = nodes, .count = COUNT(nodes)};
    struct chart chart = {.series = &series, .series_count = 1, .x_log2 = true, .diagonal = 32};
    for (int log = 0; log < 2; log++) {
        chart.x_log2 = log == 1;
        char *text = draw(&chart);
        const char *at = strstr(text, "<path class='diagonal' d='");
        assert_non_null(at);
        double x = strtod(strchr(at, 'M') + 1, NULL);
        const char *end = strchr(strchr(at, 'M'), '\''), *last = end;
        while (*last != 'L')
            last--;
        char *line = group_of(text, "series", 0);
        assert_true(x == number_of(line, "circle", 0, "cx"));
        assert_true(strtod(last + 1, NULL) == number_of(line, "circle", 5, "cx"));
        assert_true(strtod(strchr(last, ' '), NULL) == number_of(line, "circle", 5, "cy"));
        /* This series is y = x itself: the same path. */
        const char *path = strchr(strstr(line, " d='"), 'M');
        if (log == 1)
            assert_memory_equal(path, strchr(at, 'M'), (size_t)(end - strchr(at, 'M')));
        assert_non_null(strstr(text, ">linear</text>"));
        free(line);
        free(text);
    }
    static const double none[] = {0, NAN, INFINITY, -3};
    for (size_t i = 0; i < COUNT(none); i++) {
        chart.diagonal = none[i];
        char *text = draw(&chart);
        assert_null(strstr(text, "diagonal"));
        assert_null(strstr(text, ">linear</text>"));
        free(text);
    }
}

/* A point that is linear lies on the line, also between powers of two. */
TEST(the_diagonal_goes_through_every_tick)
{
    (void)state;
    const double x[] = {1, 24, 32};
    struct chart_series series = {.name = "a", .x = x, .y = x, .count = 3};
    char *text = draw(&(struct chart){.series = &series,
                                      .series_count = 1,
                                      .x_log2 = true,
                                      .x_ticks = x,
                                      .x_tick_count = 3,
                                      .diagonal = 32});
    const char *at = strchr(strstr(text, "<path class='diagonal' d='"), 'M'), *point = at;
    char *line = group_of(text, "series", 0);
    for (int i = 0; i < 5; i++) /* 2, 4, 8, 16, 24 */
        point = strchr(point + 1, 'L');
    assert_true(strtod(point + 1, NULL) == number_of(line, "circle", 1, "cx"));
    assert_true(strtod(strchr(point, ' '), NULL) == number_of(line, "circle", 1, "cy"));
    free(line);
    free(text);
}

TEST(the_diagonal_begins_at_zero_at_the_least)
{
    (void)state;
    const double x[] = {-4, 4}, y[] = {1, 2};
    struct chart_series series = {.x = x, .y = y, .count = 2};
    char *text = draw(&(struct chart){.series = &series, .series_count = 1, .diagonal = 4});
    char ticks[256];
    texts_of(text, "ytick", ticks);
    assert_string_equal(ticks, "0 0.5 1.0 1.5 2.0 2.5 3.0 3.5 4.0 ");
    free(text);
}

/* ---- bars ---- */

static const char *const groups[] = {"node 1", "node 2", "node 3"};

TEST(bars_stand_in_order_and_do_not_overlap)
{
    (void)state;
    const double a[] = {1, 2, 3}, b[] = {4, 5, 6};
    struct chart_series series[] = {{.name = "a", .y = a, .count = 3},
                                    {.name = "b", .y = b, .count = 3}};
    char *text = draw(&(struct chart){.kind = CHART_BARS,
                                      .groups = groups,
                                      .group_count = 3,
                                      .series = series,
                                      .series_count = 2});
    char *bars[] = {group_of(text, "series", 0), group_of(text, "series", 1)};
    double end = 0, unit = number_of(bars[0], "rect", 0, "height");
    for (size_t group = 0; group < 3; group++)
        for (size_t s = 0; s < 2; s++) {
            double x = number_of(bars[s], "rect", group, "x");
            assert_true(x >= end);
            end = x + number_of(bars[s], "rect", group, "width");
            double height = number_of(bars[s], "rect", group, "height");
            assert_true(fabs(height - series[s].y[group] * unit) < 0.5);
        }
    char *legend = group_of(text, "legend", 0);
    assert_true(number_of(legend, "rect", 0, "x") > end);
    assert_int_equal(count_of(text, ">node 2</text>"), 1);
    for (size_t s = 0; s < 2; s++)
        free(bars[s]);
    free(legend);
    free(text);
}

TEST(bars_hang_from_zero_when_negative_and_are_missing_when_no_number)
{
    (void)state;
    const double y[] = {2, -2, NAN, 7}; /* the last has no group */
    struct chart_series series = {.y = y, .count = 4};
    char *text = draw(&(struct chart){.kind = CHART_BARS,
                                      .groups = groups,
                                      .group_count = 3,
                                      .series = &series,
                                      .series_count = 1});
    char *bars = group_of(text, "series", 0);
    assert_int_equal(count_of(bars, "<rect"), 2);
    double top = number_of(bars, "rect", 0, "y"), zero = number_of(bars, "rect", 1, "y");
    assert_true(fabs(top + number_of(bars, "rect", 0, "height") - zero) < 0.25);
    assert_true(fabs(number_of(bars, "rect", 1, "height") - (zero - top)) < 0.25);
    free(bars);
    free(text);
}

TEST(points_among_bars_stand_on_the_bar_they_are_of)
{
    (void)state;
    const double y[] = {1, 2, 3};
    struct chart_series series[] = {
        {.y = y, .count = 3},
        {.y = y, .count = 3},
        {.y = y, .count = 3, .points_only = true, .style = 1, .on = 1},
        {.y = y, .count = 3, .points_only = true, .on = 99}, /* none: in the middle */
    };
    char *text = draw(&(struct chart){.kind = CHART_BARS,
                                      .groups = groups,
                                      .group_count = 3,
                                      .series = series,
                                      .series_count = 4});
    char *bars = group_of(text, "series", 0), *points = group_of(text, "series", 2);
    assert_int_equal(count_of(points, "<rect"), 0);
    for (size_t i = 0; i < 3; i++) {
        double middle = number_of(bars, "rect", i, "x") + number_of(bars, "rect", i, "width") / 2;
        assert_true(fabs(number_of(points, "circle", i, "cx") - middle) < 0.25);
        assert_true(number_of(points, "circle", i, "cy") == number_of(bars, "rect", i, "y"));
    }
    free(bars);
    free(points);
    free(text);
}

TEST(group_names_without_room_slant_and_the_rest_is_left_out)
{
    (void)state;
    static const char *many[200];
    static double y[200];
    for (size_t i = 0; i < 200; i++) {
        many[i] = i == 0 ? "the first of very many groups, with a name that goes on" : "a group";
        y[i] = (double)i;
    }
    struct chart_series series = {.name = "a", .y = y, .count = 200};
    struct chart chart = {.kind = CHART_BARS, .groups = many, .series = &series, .series_count = 1};
    for (chart.group_count = 0; chart.group_count <= 200; chart.group_count += 10) {
        char *text = draw(&chart);
        assert_int_equal(count_of(text, "<rect "), chart.group_count + 2);
        assert_null(strstr(text, ">the first of very")); /* the left edge is near */
        assert_in_range(count_of(text, "a group</text>"), chart.group_count > 0 ? 9 : 0, 60);
        free(text);
    }
}

/* ---- texts and the legend ---- */

TEST(texts_are_escaped_and_cleaned)
{
    (void)state;
    static const char nasty[] = "a&b<c>\"d\"\x01\n\x7F\xFF\xE2\x80\xAE\xEF\xBF\xBE\xC3\xA9'?";
    static const char clean[] = "a&amp;b&lt;c&gt;&quot;d&quot;??????\xC3\xA9'?";
    const char *const names[] = {nasty};
    struct chart_series series = {.name = nasty, .x = nodes, .y = speeds, .count = 1};
    struct chart chart = {.title = nasty,
                          .subtitle = nasty,
                          .x_label = nasty,
                          .y_label = nasty,
                          .series = &series,
                          .series_count = 1,
                          .groups = names,
                          .group_count = 1};
    for (int kind = CHART_LINES; kind <= CHART_BARS; kind++) {
        chart.kind = (enum chart_kind)kind;
        char *text = draw(&chart);
        /* Title and subtitle each as element and as text, the labels of the axes, the series
         * in the legend and under the pointer, and the group. */
        assert_int_equal(count_of(text, clean), kind == CHART_LINES ? 8 : 9);
        free(text);
    }
}

TEST(the_picture_has_a_title_for_those_who_do_not_see_it)
{
    (void)state;
    char *text = draw(&(struct chart){.title = "Speed-up"});
    assert_non_null(strstr(text, " role='img' width='720' height='440' "));
    assert_non_null(strstr(text, ">\n<title>Speed-up</title>\n"));
    free(text);
    text = draw(&(struct chart){0});
    assert_non_null(strstr(text, "<title>chart</title>"));
    free(text);
}

TEST(long_texts_are_cut_and_stay_whole_under_the_pointer)
{
    (void)state;
    char name[2000];
    for (size_t i = 0; i < sizeof name - 1; i += 2)
        memcpy(name + i, "\xC3\xA9", 2); /* cut between characters, not within */
    name[sizeof name - 2] = '\0';
    struct chart_series series = {.name = name, .x = nodes, .y = speeds, .count = 2};
    char *text = draw(&(struct chart){.title = name,
                                      .subtitle = name,
                                      .x_label = name,
                                      .y_label = name,
                                      .series = &series,
                                      .series_count = 1});
    assert_int_equal(count_of(text, name), 3);
    assert_int_equal(count_of(text, "\xC3\xA9\xE2\x80\xA6</text>"), 5);
    free(text);
}

TEST(the_legend_is_right_of_the_plot)
{
    (void)state;
    struct chart_series series[] = {
        {.name = "a", .x = nodes, .y = speeds, .count = COUNT(nodes)},
        {.name = NULL, .x = nodes, .y = speeds, .count = COUNT(nodes)},
        {.name = "a name that needs much more room than all of the others", .count = 0}};
    for (size_t count = 1; count <= 3; count++) {
        char *text = draw(&(struct chart){.series = series, .series_count = count});
        char *legend = group_of(text, "legend", 0), *line = group_of(text, "series", 0);
        assert_int_equal(count_of(legend, "<text"), count == 3 ? 2 : 1);
        assert_true(number_of(legend, "line", 0, "x1") > number_of(line, "circle", 5, "cx") + 8);
        free(legend);
        free(line);
        free(text);
    }
    char *text = draw(&(struct chart){.series = &series[1], .series_count = 1});
    assert_null(strstr(text, "legend"));
    free(text);
}

TEST(any_number_of_series_is_drawn_and_the_legend_counts_those_it_cannot_list)
{
    (void)state;
    enum { MANY = 60, DISTINCT = 28 };
    static struct chart_series series[MANY];
    for (size_t i = 0; i < MANY; i++)
        series[i] = (struct chart_series){.name = "s", .x = nodes, .y = speeds, .count = 2};
    for (size_t count = 1; count <= MANY; count++) {
        char *text = draw(&(struct chart){.series = series, .series_count = count});
        char *legend = group_of(text, "legend", 0), more[40];
        size_t listed = count_of(legend, ">s</text>");
        (void)snprintf(more, sizeof more, ">and %zu more</text>", count - listed);
        assert_int_equal(count_of(legend, more), listed < count);
        assert_true(listed == count || listed > 20);
        assert_int_equal(count_of(text, "<g class='series'>"), count);
        free(legend);
        free(text);
    }
    /* Colour and dash together tell the first of them apart. */
    char *text = draw(&(struct chart){.series = series, .series_count = MANY});
    char *strokes[DISTINCT];
    for (size_t i = 0; i < DISTINCT; i++) {
        char *line = group_of(text, "series", i);
        const char *at = strstr(line, " fill='none'");
        strokes[i] = strndup(at, strcspn(at, ">"));
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(strokes[i], strokes[j]);
        free(line);
    }
    for (size_t i = 0; i < DISTINCT; i++)
        free(strokes[i]);
    free(text);
}

TEST(ticks_stand_where_they_were_asked_for_if_there_is_room)
{
    (void)state;
    char ticks[256];
    const double crowded[] = {1, 2, 3, 4, 1000}, broken[] = {0.5, 1, 2}, y[] = {1, 2, 3, 4, 5};
    struct chart_series series = {.x = nodes, .y = speeds, .count = COUNT(nodes)};
    struct chart chart = {.series = &series, .series_count = 1};
    chart.x_ticks = nodes;
    chart.x_tick_count = COUNT(nodes);
    char *text = draw(&chart);
    texts_of(text, "xtick", ticks);
    assert_string_equal(ticks, "32 16 8 4 2 1 ");
    free(text);
    series = (struct chart_series){.x = crowded, .y = y, .count = COUNT(crowded)};
    chart.x_ticks = crowded;
    chart.x_tick_count = COUNT(crowded);
    text = draw(&chart);
    texts_of(text, "xtick", ticks);
    assert_string_equal(ticks, "1000 4 ");
    free(text);
    series = (struct chart_series){.x = broken, .y = y, .count = COUNT(broken)};
    chart.x_ticks = broken;
    chart.x_tick_count = COUNT(broken);
    text = draw(&chart);
    texts_of(text, "xtick", ticks);
    assert_string_equal(ticks, "0.4 0.6 0.8 1.0 1.2 1.4 1.6 1.8 2.0 ");
    free(text);
}

TEST(a_long_subtitle_is_broken_after_commas)
{
    (void)state;
    char subtitle[400] = "";
    for (size_t i = 0; i < 12; i++)
        (void)snprintf(subtitle + 29 * i, sizeof subtitle - 29 * i, "%s",
                       "a setting of some length 42, ");
    char *text = draw(&(struct chart){.title = "t", .subtitle = subtitle});
    size_t pale = count_of(text, "fill='#666666'>");
    assert_in_range(pale, 2, 4);
    assert_int_equal(count_of(text, "42,</text>"), pale - 1);
    assert_int_equal(count_of(text, "\xE2\x80\xA6"), 0);
    free(text);
}

TEST(a_marker_that_another_one_hides_is_larger)
{
    (void)state;
    const double other[] = {9, 1.9};
    struct chart_series series[] = {{.x = nodes, .y = speeds, .count = 2},
                                    {.x = nodes, .y = other, .count = 2, .style = 1}};
    char *text = draw(&(struct chart){.series = series, .series_count = 2});
    char *hidden = group_of(text, "series", 0), *shown = group_of(text, "series", 1);
    assert_true(number_of(hidden, "circle", 0, "r") == 4);
    assert_true(number_of(hidden, "circle", 1, "r") > 6);
    assert_true(number_of(shown, "circle", 1, "r") == 4);
    free(hidden);
    free(shown);
    free(text);
}

TEST(bars_carry_their_values_where_they_have_room)
{
    (void)state;
    const double y[] = {1.234, 0.01, 20};
    struct chart_series series[40];
    for (size_t i = 0; i < COUNT(series); i++)
        series[i] = (struct chart_series){.y = y, .count = 3};
    struct chart chart = {.kind = CHART_BARS,
                          .groups = groups,
                          .group_count = 3,
                          .series = series,
                          .series_count = 1,
                          .values = true};
    char *text = draw(&chart);
    assert_int_equal(count_of(text, ">1.23</text>"), 1);
    assert_int_equal(count_of(text, ">0.01</text>"), 1);
    assert_int_equal(count_of(text, ">20.00</text>"), 1);
    free(text);
    chart.series_count = COUNT(series);
    text = draw(&chart);
    assert_int_equal(count_of(text, ">1.23</text>"), 0);
    free(text);
}

TEST(variants_of_a_style_share_its_colour_and_nothing_else)
{
    (void)state;
    struct chart_series series[] = {
        {.x = nodes, .y = speeds, .count = 2, .style = 3},
        {.x = nodes, .y = nodes, .count = 2, .style = 3, .marker = 1, .dash = 1},
        {.name = "paper", .points_only = true, .neutral = true},
    };
    char *text = draw(&(struct chart){.series = series, .series_count = 3});
    char *first = group_of(text, "series", 0), *second = group_of(text, "series", 1);
    char *legend = group_of(text, "legend", 0);
    assert_int_equal(count_of(first, "stroke='#009e73'"), 1);
    assert_int_equal(count_of(second, "stroke='#009e73'"), 1);
    assert_int_equal(count_of(first, "stroke-dasharray"), 0);
    assert_int_equal(count_of(second, "stroke-dasharray"), 1);
    assert_int_equal(count_of(legend, "<circle"), 1);
    assert_int_equal(count_of(legend, "stroke='#222222'"), 1);
    free(first);
    free(second);
    free(legend);
    free(text);
}

/* ---- all of it ---- */

static const struct chart_series sample_series[] = {
    {.name = "hybrid & more", .x = nodes, .y = speeds, .count = COUNT(nodes), .dash = 1},
    {.name = "paper", .x = nodes, .y = nodes, .count = 3, .style = 1, .points_only = true},
};
static const struct chart sample = {.title = "A title",
                                    .subtitle = "what it is of",
                                    .x_label = "nodes",
                                    .y_label = "speed-up",
                                    .x_log2 = true,
                                    .series = sample_series,
                                    .series_count = 2,
                                    .groups = groups,
                                    .group_count = 3,
                                    .diagonal = 32};

TEST(the_same_chart_gives_the_same_bytes_in_every_locale)
{
    (void)state;
    static const char *const locales[] = {"C", "", "de_DE.UTF-8", "fr_FR.UTF-8", "C"};
    char *first = draw(&sample);
    for (size_t i = 0; i < COUNT(locales); i++) {
        (void)setlocale(LC_ALL, locales[i]); /* of those that are installed here */
        struct buf out;
        buf_init(&out, &mem_libc);
        chart_svg(&sample, &out);
        (void)setlocale(LC_ALL, "C");
        assert_string_equal(first, buf_string(&out));
        buf_fini(&out);
    }
    free(first);
}

TEST(a_chart_is_appended)
{
    (void)state;
    char *text = draw(&sample);
    struct buf out;
    buf_init(&out, &mem_libc);
    buf_text(&out, "before");
    chart_svg(&sample, &out);
    assert_memory_equal(out.data, "before", 6);
    assert_string_equal(out.data + 6, text);
    buf_fini(&out);
    free(text);
}

TEST(no_memory_is_told_by_the_buffer)
{
    (void)state;
    for (int kind = CHART_LINES; kind <= CHART_BARS; kind++) {
        struct chart chart = sample;
        chart.kind = (enum chart_kind)kind;
        struct fault fault = {0};
        FAULT_WALK(&fault)
        {
            struct buf out;
            buf_init(&out, &fault.mem);
            chart_svg(&chart, &out);
            assert_int_equal(buf_ok(&out), !fault.hit);
            buf_fini(&out);
        }
        assert_true(fault.run > 3);
    }
}

static double any_number(struct rng *rng)
{
    static const double special[] = {0,         -0.0,    1,        -1,      NAN,          INFINITY,
                                     -INFINITY, DBL_MAX, -DBL_MAX, DBL_MIN, DBL_TRUE_MIN, 999999.5,
                                     1e6,       0.001,   0.1 + 0.2};
    switch (rng_below(rng, 4)) {
    case 0:
        return special[rng_below(rng, COUNT(special))];
    case 1:
        return (rng_unit(rng) - 0.5) * pow(10, (double)rng_below(rng, 600) - 300);
    case 2:
        return 1 + rng_unit(rng) * 1e-7;
    default:
        return rng_unit(rng) * 100;
    }
}

TEST(whatever_the_numbers_all_is_well_formed_and_inside_the_picture)
{
    (void)state;
    enum { RUNS = 3000, SERIES = 10, POINTS = 30 };
    static const char *const texts[] = {NULL, "", "a text", "<&>",
                                        "a text that is rather longer than most texts are"};
    struct rng rng;
    rng_init(&rng, 20);
    for (int run = 0; run < RUNS; run++) {
        struct chart_series series[SERIES];
        double x[SERIES][POINTS], y[SERIES][POINTS];
        const char *names[POINTS];
        for (size_t s = 0; s < SERIES; s++) {
            for (size_t i = 0; i < POINTS; i++) {
                x[s][i] = any_number(&rng);
                y[s][i] = any_number(&rng);
                names[i] = texts[1 + rng_below(&rng, COUNT(texts) - 1)];
            }
            series[s] = (struct chart_series){.name = texts[rng_below(&rng, COUNT(texts))],
                                              .x = x[s],
                                              .y = y[s],
                                              .count = rng_below(&rng, POINTS + 1),
                                              .style = rng_below(&rng, 4),
                                              .dash = rng_below(&rng, 9),
                                              .marker = rng_below(&rng, 9),
                                              .neutral = rng_below(&rng, 3) == 1,
                                              .on = rng_below(&rng, 4),
                                              .points_only = rng_below(&rng, 3) == 1};
        }
        struct chart chart = {.kind = (enum chart_kind)rng_below(&rng, 2),
                              .values = rng_below(&rng, 2) == 1,
                              .x_ticks = nodes,
                              .x_tick_count = rng_below(&rng, COUNT(nodes) + 1),
                              .title = texts[rng_below(&rng, COUNT(texts))],
                              .subtitle = texts[rng_below(&rng, COUNT(texts))],
                              .x_label = texts[rng_below(&rng, COUNT(texts))],
                              .y_label = texts[rng_below(&rng, COUNT(texts))],
                              .x_log2 = rng_below(&rng, 2) == 1,
                              .y_from_zero = rng_below(&rng, 2) == 1,
                              .groups = names,
                              .group_count = rng_below(&rng, POINTS + 1),
                              .series = series,
                              .series_count = rng_below(&rng, SERIES + 1),
                              .diagonal = any_number(&rng)};
        free(draw(&chart));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ticks_are_round_numbers_around_the_values),
        cmocka_unit_test(a_logarithmic_axis_has_ticks_at_powers_of_two),
        cmocka_unit_test(the_text_of_the_last_tick_is_not_cut_by_the_edge),
        cmocka_unit_test(powers_of_two_are_equally_far_apart),
        cmocka_unit_test(a_value_that_is_none_leaves_a_gap_in_the_line),
        cmocka_unit_test(a_point_without_neighbours_still_has_its_marker),
        cmocka_unit_test(a_long_line_is_not_hidden_under_its_markers),
        cmocka_unit_test(x_that_is_not_positive_is_left_out_of_a_logarithmic_axis),
        cmocka_unit_test(points_only_draws_hollow_markers_and_no_line),
        cmocka_unit_test(the_diagonal_is_y_equals_x_up_to_where_it_is_asked),
        cmocka_unit_test(the_diagonal_goes_through_every_tick),
        cmocka_unit_test(the_diagonal_begins_at_zero_at_the_least),
        cmocka_unit_test(bars_stand_in_order_and_do_not_overlap),
        cmocka_unit_test(bars_hang_from_zero_when_negative_and_are_missing_when_no_number),
        cmocka_unit_test(points_among_bars_stand_on_the_bar_they_are_of),
        cmocka_unit_test(group_names_without_room_slant_and_the_rest_is_left_out),
        cmocka_unit_test(texts_are_escaped_and_cleaned),
        cmocka_unit_test(the_picture_has_a_title_for_those_who_do_not_see_it),
        cmocka_unit_test(long_texts_are_cut_and_stay_whole_under_the_pointer),
        cmocka_unit_test(the_legend_is_right_of_the_plot),
        cmocka_unit_test(any_number_of_series_is_drawn_and_the_legend_counts_those_it_cannot_list),
        cmocka_unit_test(ticks_stand_where_they_were_asked_for_if_there_is_room),
        cmocka_unit_test(a_long_subtitle_is_broken_after_commas),
        cmocka_unit_test(a_marker_that_another_one_hides_is_larger),
        cmocka_unit_test(bars_carry_their_values_where_they_have_room),
        cmocka_unit_test(variants_of_a_style_share_its_colour_and_nothing_else),
        cmocka_unit_test(the_same_chart_gives_the_same_bytes_in_every_locale),
        cmocka_unit_test(a_chart_is_appended),
        cmocka_unit_test(no_memory_is_told_by_the_buffer),
        cmocka_unit_test(whatever_the_numbers_all_is_well_formed_and_inside_the_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
