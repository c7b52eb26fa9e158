/* Reading configuration files. */
#include "settings/file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/utf8.h"
#include "os/file.h"

/* One line; values are cut out of it in place. */
struct line {
    struct settings_file *file;
    char *begin, *at, *end; /* *end may be written: it is a line end, or the text's NUL */
    uint32_t number;
    const char **group; /* the heading above it; NULL: none yet */
    tri_error *err;
};

/* ---- errors ---- */

/* In characters, from 1. */
static uint32_t column_of(const struct line *line, const char *at)
{
    uint32_t column = 1;
    for (const char *p = line->begin; p < at; p++)
        column += ((unsigned char)*p & 0xC0) != 0x80;
    return column;
}

__attribute__((format(printf, 3, 4))) static tri_status
refuse(const struct line *line, const char *at, const char *format, ...)
{
    char text[160];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fail(line->err, TRI_EINPUT, "%s", text);
    fail_where(line->err, "%.200s:%u:%u", line->file->name, (unsigned)line->number,
               (unsigned)column_of(line, at));
    return TRI_EINPUT;
}

/* ---- words ---- */

static void skip_blanks(struct line *line)
{
    while (line->at < line->end && (*line->at == ' ' || *line->at == '\t'))
        line->at++;
}

static bool is_at(const struct line *line, char c)
{
    return line->at < line->end && *line->at == c;
}

/* Nothing but a comment may follow. */
static tri_status read_end(struct line *line)
{
    skip_blanks(line);
    if (line->at == line->end || *line->at == '#')
        return TRI_OK;
    refuse(line, line->at, "something follows that does not belong here");
    fail_next(line->err, "put values with spaces in quotes, and # before a comment");
    return TRI_EINPUT;
}

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
}

/* The name that stands here, cut to fit. */
static size_t read_word(struct line *line, char out[64])
{
    const char *begin = line->at;
    while (line->at < line->end && is_word(*line->at))
        line->at++;
    size_t len = (size_t)(line->at - begin);
    (void)snprintf(out, 64, "%.*s", (int)(len < 63 ? len : 63), begin);
    return len;
}

/* ---- headings ---- */

/* The groups of the table, each once. */
static const char *group_candidate(const void *ctx, size_t i)
{
    (void)ctx;
    const char *last = NULL;
    for (size_t at = 0; setting_at(at) != NULL; at++) {
        const char *group = setting_at(at)->group;
        if ((last == NULL || strcmp(last, group) != 0) && i-- == 0)
            return group;
        last = group;
    }
    return NULL;
}

static tri_status read_heading(struct line *line)
{
    const char *begin = line->at++;
    char word[64], next[NAMES_TEXT];
    skip_blanks(line);
    size_t len = read_word(line, word);
    skip_blanks(line);
    if (len == 0 || !is_at(line, ']')) {
        refuse(line, begin, "a heading is not closed, or has no name");
        fail_next(line->err, "write it as [network]");
        return TRI_EINPUT;
    }
    line->at++;
    for (size_t i = 0; group_candidate(NULL, i) != NULL; i++)
        if (names_equal(group_candidate(NULL, i), word)) {
            *line->group = group_candidate(NULL, i);
            return read_end(line);
        }
    refuse(line, begin, "there is no heading [%s]", word);
    names_advise(word, group_candidate, NULL, next);
    fail_next(line->err, "%s", next);
    return TRI_EINPUT;
}

/* ---- values ---- */

/* Takes the backslashes out, in place. */
static void unescape(char *from, const char *end)
{
    char *to = from;
    for (const char *p = from; p < end; p++) {
        p += *p == '\\';
        *to++ = *p;
    }
    *to = '\0';
}

/* What stands between quotes; \" and \\ stand for themselves. The line is changed last, since
 * columns of errors are counted in it. */
static tri_status read_quoted(struct line *line, char **value)
{
    char *quote = line->at++;
    for (; line->at < line->end && *line->at != '"'; line->at++) {
        if (*line->at != '\\')
            continue;
        line->at++;
        if (!is_at(line, '"') && !is_at(line, '\\')) {
            refuse(line, line->at - 1, "a backslash stands alone");
            fail_next(line->err, "write \\\\ for a backslash and \\\" for a quote");
            return TRI_EINPUT;
        }
    }
    if (line->at == line->end) {
        refuse(line, quote, "a quote is not closed");
        fail_next(line->err, "end the value with \" on the same line");
        return TRI_EINPUT;
    }
    const char *end = line->at++;
    tri_status status = read_end(line);
    unescape(quote + 1, end);
    *value = quote + 1;
    return status;
}

static tri_status read_bare(struct line *line, char **value)
{
    char *begin = line->at;
    while (line->at < line->end && strchr(" \t#\"'\\", *line->at) == NULL)
        line->at++;
    char *end = line->at;
    bool glued = end < line->end && *end != ' ' && *end != '\t';
    if (glued) {
        refuse(line, end, "a value with %c in it needs quotes", *end);
        fail_next(line->err, "write name = \"value\"; a comment begins with a space before its #");
        return TRI_EINPUT;
    }
    tri_status status = read_end(line);
    *end = '\0';
    *value = begin;
    return status;
}

static tri_status read_value(struct line *line, const char *name, struct settings_entry *out)
{
    char *value = NULL;
    skip_blanks(line);
    out->line = line->number;
    out->column = column_of(line, line->at);
    const char *begin = line->at;
    tri_status status = TRI_OK;
    bool none = line->at == line->end || *line->at == '#';
    if (!none)
        status = *line->at == '"' ? read_quoted(line, &value) : read_bare(line, &value);
    if (status == TRI_OK && (none || value[0] == '\0')) {
        refuse(line, begin, "'%s' has no value", name);
        fail_next(line->err, "leave the line out for the default");
        return TRI_EINPUT;
    }
    out->value = value;
    return status;
}

/* ---- lines ---- */

static tri_status check_row(const struct line *line, const char *begin, const char *word,
                            const struct setting *row, size_t index)
{
    const struct settings_entry *before = &line->file->entries[index];
    if (row->process) {
        refuse(line, begin, "'%s' cannot stand in a file", row->name);
        fail_next(line->err, "set %s in the environment of the process", row->variable);
    } else if (*line->group != NULL && strcmp(*line->group, row->group) != 0) {
        refuse(line, begin, "'%s' stands under [%s]", row->name, *line->group);
        fail_next(line->err, "put it under [%s], or leave out the headings", row->group);
    } else if (before->value != NULL) {
        refuse(line, begin, "'%s' is given twice", word);
        fail_why(line->err, "line %u has it already", (unsigned)before->line);
        fail_next(line->err, "leave one of the two out");
    } else {
        return TRI_OK;
    }
    return TRI_EINPUT;
}

static tri_status read_entry(struct line *line)
{
    const char *begin = line->at;
    char word[64], next[NAMES_TEXT];
    size_t index = 0, len = read_word(line, word);
    skip_blanks(line);
    if (len == 0 || !is_at(line, '=')) {
        refuse(line, len == 0 ? begin : line->at, "this is no setting");
        fail_next(line->err, "write name = value, or # before a comment");
        return TRI_EINPUT;
    }
    line->at++;
    const struct setting *row = setting_find(word, &index);
    if (row == NULL) {
        refuse(line, begin, "there is no setting '%s'", word);
        setting_advise(word, next);
        fail_next(line->err, "%s", next);
        return TRI_EINPUT;
    }
    tri_status status = check_row(line, begin, word, row, index);
    if (status != TRI_OK)
        return status;
    struct settings_entry *entry = &line->file->entries[index];
    status = read_value(line, word, entry);
    if (status != TRI_OK)
        return status;
    status = setting_put(row, entry->value, row->name, NULL, line->err);
    if (status != TRI_OK)
        fail_where(line->err, "%.200s:%u:%u", line->file->name, (unsigned)entry->line,
                   (unsigned)entry->column);
    return status;
}

/* Text, and none that could drive a terminal. */
static tri_status check_text(const struct line *line)
{
    for (const char *p = line->begin; p < line->end;) {
        size_t len = utf8_length(p, (size_t)(line->end - p));
        if (len == 0 || ((unsigned char)*p < 0x20 && *p != '\t') || *p == 0x7F) {
            refuse(line, p, "this is not text");
            fail_why(line->err, "byte 0x%02x is neither UTF-8 nor a tab",
                     (unsigned)(unsigned char)*p);
            fail_next(line->err, "save the file as plain text in UTF-8");
            return TRI_EINPUT;
        }
        p += len;
    }
    return TRI_OK;
}

static tri_status read_line(struct line *line)
{
    tri_status status = check_text(line);
    if (status != TRI_OK)
        return status;
    skip_blanks(line);
    if (line->at == line->end || *line->at == '#')
        return TRI_OK;
    return *line->at == '[' ? read_heading(line) : read_entry(line);
}

tri_status settings_file_parse(struct settings_file *file, tri_error *err)
{
    static const char mark[] = "\xEF\xBB\xBF"; /* some editors put it before UTF-8 */
    char *text = file->text.data, *end = text + file->text.len;
    const char *group = NULL;
    tri_status status = TRI_OK;
    if (file->text.len >= 3 && memcmp(text, mark, 3) == 0)
        text += 3;
    for (uint32_t number = 1; text < end && status == TRI_OK; number++) {
        char *newline = memchr(text, '\n', (size_t)(end - text));
        char *next = newline != NULL ? newline + 1 : end;
        char *stop = newline != NULL ? newline : end;
        if (stop > text && stop[-1] == '\r')
            stop--;
        struct line line = {file, text, text, stop, number, &group, err};
        status = read_line(&line);
        text = next;
    }
    return status;
}

/* ---- files ---- */

/* As ssh does with its keys. */
static tri_status check_secret(const struct settings_file *file, tri_error *err)
{
    struct stat info;
    const struct settings_entry *token =
        &file->entries[setting_of(offsetof(struct settings, token))];
    if (token->value == NULL || stat(file->name, &info) != 0 || !S_ISREG(info.st_mode) ||
        (info.st_mode & 077) == 0)
        return TRI_OK;
    fail(err, TRI_EINPUT, "'%.150s' holds the job's token, and others may use it", file->name);
    fail_where(err, "%.200s:%u, mode %03o", file->name, (unsigned)token->line,
               (unsigned)info.st_mode & 0777);
    fail_next(err, "chmod 600 %.150s, or give the token by TRIDENT_TOKEN", file->name);
    return TRI_EINPUT;
}

void settings_file_init(struct settings_file *file, const struct mem *mem)
{
    *file = (struct settings_file){.name = NULL};
    buf_init(&file->text, mem);
}

void settings_file_fini(struct settings_file *file)
{
    buf_fini(&file->text);
}

tri_status settings_file_read(struct settings_file *file, const char *path, tri_error *err)
{
    tri_status status = file_read(path, SETTINGS_FILE_MOST, &file->text, err);
    if (status != TRI_OK) {
        if (status == TRI_EINPUT)
            fail_next(err, "check the path of the configuration file");
        return status;
    }
    file->name = path;
    if (file->text.len > 0)
        status = settings_file_parse(file, err);
    return status == TRI_OK ? check_secret(file, err) : status;
}
