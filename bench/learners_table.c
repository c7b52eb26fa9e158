/* Three tables. */
#include "bench/learners_table.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct text {
    char *to;
    size_t room;
};

static void say(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void say(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(text->to, text->room, format, args);
    va_end(args);
    const size_t used = len < 0 ? 0 : (size_t)len < text->room ? (size_t)len : text->room - 1;
    text->to += used;
    text->room -= used;
}

static void say_number(struct text *text, int width, int digits, double value)
{
    if (isfinite(value))
        say(text, " %*.*f", width, digits, value);
    else
        say(text, " %*s", width, "-");
}

static void say_rates(struct text *text, const struct learners_row *rows, size_t count,
                      const struct learners_way *ways)
{
    say(text, "samples/s, medians, and the ratio of two learners to one\nnet batch    one");
    for (int twice = 0; twice < 2; twice++)
        for (size_t w = 0; w < LEARNERS_WAYS; w++)
            say(text, " %6s", ways[w].head);
    for (size_t i = 0; i < count; i++) {
        const struct learners_row *row = &rows[i];
        say(text, "\n%-5s %3u", row->net, (unsigned)row->batch);
        say_number(text, 6, 0, row->one);
        for (size_t w = 0; w < LEARNERS_WAYS; w++)
            say_number(text, 6, 0, row->two[w]);
        for (size_t w = 0; w < LEARNERS_WAYS; w++)
            say_number(text, 6, 2, row->two[w] / row->one);
    }
    say(text, "\n");
}

/* Which net a row is of; they lie together. */
static size_t nets_of(const struct learners_row *rows, size_t count, size_t firsts[LEARNERS_NETS])
{
    size_t nets = 0;
    for (size_t i = 0; i < count && nets < LEARNERS_NETS; i++)
        if (i == 0 || strcmp(rows[i].net, rows[i - 1].net) != 0)
            firsts[nets++] = i;
    return nets;
}

static void say_smallest(struct text *text, const struct learners_row *rows, size_t count,
                         size_t first, size_t way)
{
    for (size_t i = first; i < count && strcmp(rows[i].net, rows[first].net) == 0; i++)
        if (rows[i].two[way] > rows[i].one) {
            say(text, " %6u", (unsigned)rows[i].batch);
            return;
        }
    say(text, " %6s", "-");
}

void learners_tables(const struct learners_row *rows, size_t count, const struct learners_way *ways,
                     char *to, size_t room)
{
    struct text text = {to, room};
    size_t firsts[LEARNERS_NETS] = {0};
    const size_t nets = nets_of(rows, count, firsts);
    say_rates(&text, rows, count, ways);
    say(&text, "\nsmallest mini-batch at which two learners beat one\n%-40s", "way");
    for (size_t n = 0; n < nets; n++)
        say(&text, " %6s", rows[firsts[n]].net);
    for (size_t w = 0; w < LEARNERS_WAYS; w++) {
        say(&text, "\n%-40s", ways[w].name);
        for (size_t n = 0; n < nets; n++)
            say_smallest(&text, rows, count, firsts[n], w);
    }
    say(&text, "\n\ntwo learners at the smallest mini-batch\n");
    for (size_t w = 0; w <= 2; w += 2) {
        say(&text, "%s : %s:", ways[w].head, ways[1].head);
        for (size_t n = 0; n < nets; n++) {
            const struct learners_row *row = &rows[firsts[n]];
            say(&text, "%s %s", n > 0 ? "," : "", row->net);
            say_number(&text, 0, 2, row->two[w] / row->two[1]);
        }
        say(&text, "\n");
    }
}
