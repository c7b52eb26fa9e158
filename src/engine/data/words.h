/* From text to words: the tokens of a text classifier.
 *
 * In the spirit of clean_str() of Kim 2014 (convolutional nets for sentences), and for UTF-8:
 *
 * - Letters become lower case: ASCII, Latin, Greek and Cyrillic ones.
 * - A word is a run of letters, digits and all other characters past ASCII that are no space and no
 *   punctuation. Ideographs and kana stand alone: such texts have no spaces.
 * - ( ) , ! and ? are words of their own; all other punctuation only ends a word.
 * - An apostrophe (' or U+2019) between two characters of a word belongs to it: "o'clock". But the
 *   endings 's 've 're 'd 'll 'm and n't are words of their own: "don't" is "do" and "n't", and so
 *   is "do n't", as some data sets write it. At the edge of a word it is a quotation mark.
 * - A word is cut after WORDS_MAX bytes, between two characters. */
#ifndef TRIDENT_ENGINE_DATA_WORDS_H
#define TRIDENT_ENGINE_DATA_WORDS_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers of the two tokens that every vocabulary of words begins with, and their names. No text
 * has words like these. */
enum { WORDS_PADDING = 0, WORDS_UNKNOWN = 1, WORDS_RESERVED = 2 };
#define WORDS_PADDING_NAME "<pad>"
#define WORDS_UNKNOWN_NAME "<unk>"

enum { WORDS_MAX = 64 };

/* Above the line: the word that words_next() found, without a NUL. */
struct words {
    const char *word;
    size_t len;
    /* ---- */
    const char *at, *end;
    char token[WORDS_MAX];
    size_t ending, token_len; /* the ending still to come is token[ending .. token_len) */
};

/* The text is borrowed as long as words_next() is called. Bytes that are no UTF-8 end words. */
void words_begin(struct words *words, const char *text, size_t len);
bool words_next(struct words *words); /* false: no more */

#ifdef __cplusplus
}
#endif

#endif
