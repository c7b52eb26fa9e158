/* Splits text into words. */
#include "engine/data/words.h"

#include <stdint.h>
#include <string.h>

#include "base/utf8.h"

enum kind { GAP, LETTER, ALONE, APOSTROPHE };

struct range {
    uint32_t first, last;
};

static bool within(const struct range *ranges, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++)
        if (code >= ranges[i].first && code <= ranges[i].last)
            return true;
    return false;
}

/* Spaces and punctuation past ASCII: Latin-1, general, CJK and full-width. */
static const struct range gaps[] = {
    {0x80, 0xA9},     {0xAB, 0xB4},     {0xB6, 0xB9},     {0xBB, 0xBF},
    {0xD7, 0xD7},     {0xF7, 0xF7},     {0x1680, 0x1680}, {0x2000, 0x206F},
    {0x3000, 0x3003}, {0x3008, 0x3020}, {0xFE30, 0xFE6F}, {0xFEFF, 0xFEFF},
    {0xFF00, 0xFF0F}, {0xFF1A, 0xFF20}, {0xFF3B, 0xFF40}, {0xFF5B, 0xFF65},
};

/* Kana and ideographs. */
static const struct range alone[] = {
    {0x3040, 0x30FF}, {0x3400, 0x4DBF}, {0x4E00, 0x9FFF}, {0xF900, 0xFAFF}, {0x20000, 0x3FFFF},
};

#define COUNT(array) (sizeof(array) / sizeof(array)[0])

static enum kind kind_of(uint32_t code)
{
    if (code < 0x80) {
        if ((code >= '0' && code <= '9') || (code >= 'a' && code <= 'z') ||
            (code >= 'A' && code <= 'Z'))
            return LETTER;
        if (code == '\'')
            return APOSTROPHE;
        return code != 0 && strchr("(),!?", (int)code) != NULL ? ALONE : GAP;
    }
    if (code == 0x2019)
        return APOSTROPHE;
    if (within(gaps, COUNT(gaps), code))
        return GAP;
    return within(alone, COUNT(alone), code) ? ALONE : LETTER;
}

/* Capital letters past ASCII. Each is as long in UTF-8 as its small letter. */
static const struct {
    uint32_t first, last, step, add;
} capitals[] = {
    {0xC0, 0xD6, 1, 32},   {0xD8, 0xDE, 1, 32},   {0x100, 0x12E, 2, 1},  {0x132, 0x136, 2, 1},
    {0x139, 0x147, 2, 1},  {0x14A, 0x176, 2, 1},  {0x391, 0x3A1, 1, 32}, {0x3A3, 0x3AB, 1, 32},
    {0x400, 0x40F, 1, 80}, {0x410, 0x42F, 1, 32},
};

static uint32_t small(uint32_t code)
{
    for (size_t i = 0; i < COUNT(capitals); i++)
        if (code >= capitals[i].first && code <= capitals[i].last &&
            (code - capitals[i].first) % capitals[i].step == 0)
            return code + capitals[i].add;
    return code;
}

/* Appends the character of len bytes at p in lower case; drops it once the word is full. */
static void put(struct words *words, const char *p, size_t len)
{
    char *to = words->token + words->token_len;
    if (words->token_len + len > WORDS_MAX)
        return;
    memcpy(to, p, len);
    if (len == 1 && *p >= 'A' && *p <= 'Z')
        *to = (char)(*p + ('a' - 'A'));
    if (len == 2) {
        uint32_t code = small(utf8_code(p, len));
        to[0] = (char)(0xC0 | code >> 6);
        to[1] = (char)(0x80 | (code & 0x3F));
    }
    words->token_len += len;
}

/* The character at p: its kind, and its length, at least 1. */
static enum kind look(const struct words *words, const char *p, size_t *len)
{
    if ((unsigned char)*p < 0x80) {
        *len = 1;
        return kind_of((unsigned char)*p);
    }
    size_t found = utf8_length(p, (size_t)(words->end - p));
    *len = found > 0 ? found : 1;
    return found > 0 ? kind_of(utf8_code(p, found)) : GAP;
}

static bool letter_at(const struct words *words, const char *p)
{
    size_t len;
    return p < words->end && look(words, p, &len) == LETTER;
}

static const char *const endings[] = {"'s", "'ve", "'re", "'d", "'ll", "'m", "n't"};

/* Where the token's ending begins; its length if it has none. */
static size_t find_ending(const struct words *words)
{
    for (size_t i = 0; i < COUNT(endings); i++) {
        size_t len = strlen(endings[i]);
        if (words->token_len >= len &&
            memcmp(words->token + words->token_len - len, endings[i], len) == 0)
            return words->token_len - len;
    }
    return words->token_len;
}

/* Reads a run of letters, with the apostrophes inside it. One before it is taken along only if
 * all becomes an ending of its own: "it 's". */
static void take_word(struct words *words, bool apostrophe)
{
    words->token_len = 0;
    if (apostrophe)
        put(words, "'", 1);
    while (words->at < words->end) {
        size_t len;
        enum kind kind = look(words, words->at, &len);
        if (kind == APOSTROPHE && letter_at(words, words->at + len))
            put(words, "'", 1);
        else if (kind == LETTER)
            put(words, words->at, len);
        else
            break;
        words->at += len;
    }
    words->ending = find_ending(words);
    if (apostrophe && words->ending != 0) {
        memmove(words->token, words->token + 1, --words->token_len);
        words->ending--;
    }
}

static bool give(struct words *words, size_t from, size_t to)
{
    words->word = words->token + from;
    words->len = to - from;
    return true;
}

/* The word that was just read, or what is left of it without its ending. */
static bool give_word(struct words *words)
{
    if (words->ending > 0 && words->ending < words->token_len)
        return give(words, 0, words->ending);
    words->ending = words->token_len;
    return give(words, 0, words->token_len);
}

void words_begin(struct words *words, const char *text, size_t len)
{
    words->word = words->token;
    words->len = 0;
    words->at = text;
    words->end = text + len;
    words->ending = words->token_len = 0;
}

bool words_next(struct words *words)
{
    if (words->ending < words->token_len) {
        size_t from = words->ending;
        words->ending = words->token_len;
        return give(words, from, words->token_len);
    }
    while (words->at < words->end) {
        size_t len;
        enum kind kind = look(words, words->at, &len);
        if (kind == LETTER) {
            take_word(words, false);
            return give_word(words);
        }
        const char *p = words->at;
        words->at += len;
        if (kind == APOSTROPHE && letter_at(words, words->at)) {
            take_word(words, true);
            return give_word(words);
        }
        if (kind == ALONE) {
            words->token_len = 0;
            put(words, p, len);
            words->ending = words->token_len;
            return give_word(words);
        }
    }
    return false;
}
