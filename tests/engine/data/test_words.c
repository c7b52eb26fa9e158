/* engine/words and engine/vocabulary: what is a word, and which number it has. */
#include "engine/data/words.h"

#include <stdio.h>
#include <string.h>

#include "engine/data/vocabulary.h"
#include "lib/test.h"

/* The words with '|' between them. */
static const char *split(const char *text)
{
    static char out[512];
    struct words words;
    size_t len = 0;
    out[0] = '\0';
    words_begin(&words, text, strlen(text));
    while (words_next(&words))
        len += (size_t)snprintf(out + len, sizeof out - len, "%s%.*s", len > 0 ? "|" : "",
                                (int)words.len, words.word);
    return out;
}

TEST(letters_become_small_and_punctuation_ends_words)
{
    (void)state;
    assert_string_equal(split("What films featured  Popeye Doyle ?"),
                        "what|films|featured|popeye|doyle|?");
    assert_string_equal(split("a.b-c;\"d\" e:f $5 100%"), "a|b|c|d|e|f|5|100");
    assert_string_equal(split(""), "");
    assert_string_equal(split(" .-\t"), "");
}

TEST(five_marks_are_words_of_their_own)
{
    (void)state;
    assert_string_equal(split("no,no!(yes)?"), "no|,|no|!|(|yes|)|?");
}

TEST(endings_are_words_of_their_own)
{
    (void)state;
    assert_string_equal(split("it's I've we're he'd they'll I'm don't"),
                        "it|'s|i|'ve|we|'re|he|'d|they|'ll|i|'m|do|n't");
    assert_string_equal(split("it 's wo n't"), "it|'s|wo|n't");
    assert_string_equal(split("DON\xE2\x80\x99T"), "do|n't");
}

TEST(other_apostrophes_belong_to_a_word_or_quote_it)
{
    (void)state;
    assert_string_equal(split("o'clock 'hello' rock 'n' roll'"), "o'clock|hello|rock|n|roll");
    assert_string_equal(split("' '' dogs'"), "dogs");
    assert_string_equal(split("say 'i don't'"), "say|i|do|n't");
    assert_string_equal(split("'tis 'Tom's'"), "tis|tom|'s");
}

TEST(characters_past_ascii_belong_to_words)
{
    (void)state;
    assert_string_equal(split("\xC3\x84RGER \xC5\x81\xC3\xB3"
                              "d\xC5\xBA"),
                        "\xC3\xA4rger|\xC5\x82\xC3\xB3"
                        "d\xC5\xBA");
    assert_string_equal(split("\xCE\xA9\xCE\xBC \xD0\x9C\xD0\xB8\xD1\x80"),
                        "\xCF\x89\xCE\xBC|\xD0\xBC\xD0\xB8\xD1\x80");
    assert_string_equal(split("one\xE2\x80\x94two\xC2\xA0three\xE2\x80\xA6"), "one|two|three");
    assert_string_equal(split("\xE6\x97\xA5\xE6\x9C\xAC"), "\xE6\x97\xA5|\xE6\x9C\xAC");
    assert_string_equal(split("a\xFFz\xC3"), "a|z"); /* no UTF-8 */
}

TEST(a_long_word_is_cut_between_characters)
{
    (void)state;
    char text[400];
    struct words words;
    memset(text, 'x', 63);
    for (size_t i = 63; i + 1 < sizeof text; i += 2) {
        text[i] = '\xC3';
        text[i + 1] = '\xA4';
    }
    words_begin(&words, text, sizeof text - 1);
    assert_true(words_next(&words));
    assert_int_equal(words.len, 63);
    assert_false(words_next(&words));
    memset(text, 'x', sizeof text);
    words_begin(&words, text, sizeof text);
    assert_true(words_next(&words));
    assert_int_equal(words.len, WORDS_MAX);
    assert_false(words_next(&words));
}

TEST(a_vocabulary_numbers_names_as_they_come)
{
    (void)state;
    struct vocabulary *v = vocabulary_new(&mem_libc);
    assert_non_null(v);
    char name[16];
    for (uint32_t i = 0; i < 5000; i++) {
        int len = snprintf(name, sizeof name, "w%u", i);
        assert_int_equal(vocabulary_add(v, name, (size_t)len), i);
        assert_int_equal(vocabulary_add(v, name, (size_t)len), i);
    }
    assert_int_equal(vocabulary_size(v), 5000);
    assert_int_equal(vocabulary_find(v, "w4321", 5), 4321);
    assert_int_equal(vocabulary_find(v, "w43", 3), 43);
    assert_int_equal(vocabulary_find(v, "w", 1), VOCABULARY_NONE);
    assert_int_equal(vocabulary_find(v, "", 0), VOCABULARY_NONE);
    assert_string_equal(vocabulary_at(v, 4999), "w4999");
    assert_string_equal(vocabulary_at(v, 5000), "");
    assert_string_equal(vocabulary_at(NULL, 0), "");
    vocabulary_free(v);
    vocabulary_free(NULL);
}

TEST(a_list_of_names_becomes_a_vocabulary)
{
    (void)state;
    const char *const names[] = {"<pad>", "<unk>", "", "the"};
    struct vocabulary *v = NULL;
    assert_int_equal(vocabulary_of(names, 4, &mem_libc, &v, NULL), TRI_OK);
    assert_int_equal(vocabulary_size(v), 4);
    assert_int_equal(vocabulary_find(v, "the", 3), 3);
    assert_int_equal(vocabulary_find(v, "", 0), 2);
    vocabulary_free(v);
}

TEST(a_name_that_is_there_twice_is_refused)
{
    (void)state;
    const char *const names[] = {"a", "b", "a"};
    struct vocabulary *v = NULL;
    tri_error err = {0};
    assert_int_equal(vocabulary_of(names, 3, &mem_libc, &v, &err), TRI_EINPUT);
    assert_null(v);
    assert_non_null(strstr(err.text, "'a'"));
}

TEST(a_vocabulary_survives_refused_memory)
{
    (void)state;
    struct fault fault = {0};
    FAULT_WALK(&fault)
    {
        struct vocabulary *v = vocabulary_new(&fault.mem);
        char name[16];
        uint32_t added = 0;
        for (uint32_t i = 0; v != NULL && i < 200; i++) {
            int len = snprintf(name, sizeof name, "n%u", i);
            uint32_t number = vocabulary_add(v, name, (size_t)len);
            assert_true(number == added || number == VOCABULARY_NONE);
            added += number == added;
        }
        assert_int_equal(vocabulary_size(v), added);
        for (uint32_t i = 0; i < added; i++) {
            const char *at = vocabulary_at(v, i);
            assert_int_equal(vocabulary_find(v, at, strlen(at)), i);
        }
        vocabulary_free(v);
    }
    assert_true(fault.run > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_become_small_and_punctuation_ends_words),
        cmocka_unit_test(five_marks_are_words_of_their_own),
        cmocka_unit_test(endings_are_words_of_their_own),
        cmocka_unit_test(other_apostrophes_belong_to_a_word_or_quote_it),
        cmocka_unit_test(characters_past_ascii_belong_to_words),
        cmocka_unit_test(a_long_word_is_cut_between_characters),
        cmocka_unit_test(a_vocabulary_numbers_names_as_they_come),
        cmocka_unit_test(a_list_of_names_becomes_a_vocabulary),
        cmocka_unit_test(a_name_that_is_there_twice_is_refused),
        cmocka_unit_test(a_vocabulary_survives_refused_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
