/* base/units: what people may write, and what they get to see. */
#include "base/units.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "lib/test.h"

#define ROWS(table) (sizeof(table) / sizeof(table)[0])

struct row {
    const char *text;
    double value;
};

/* Nobody takes these, whatever the kind. */
static const char *const never[] = {
    "",    " ",         "-1",         "+1",    " 1",    "1 ",    "-0",    "+0",     "nan", "NaN",
    "inf", "-inf",      "0x10",       "1e400", "1.5.2", "1,5",   "1e",    "1e+",    "1e-", ".",
    ".e3", "e3",        "1\n",        "\t1",   "--1",   "1 MB",  "1 s",   "1Gbit ", "1__", "1s1",
    "ten", "\xC2\xB5s", "1\xC2\xB5s", "1/s",   "1//s",  "1bit/", "infGB", "nans",
};

static void check_refused(const char *what, const char *text, bool taken, bool touched)
{
    if (taken || touched)
        fail_msg("units_%s: '%s' was %s", what, text, taken ? "taken" : "refused but written");
}

/* All parsers on one text; true where it was refused and the output left alone. */
static void nobody_takes(const char *text)
{
    uint64_t whole = 7;
    double real = 7;
    check_refused("count", text, units_count(text, &whole), whole != 7);
    check_refused("size", text, units_size(text, &whole), whole != 7);
    check_refused("number", text, units_number(text, &real), real != 7);
    check_refused("rate", text, units_rate(text, &real), real != 7);
    check_refused("time", text, units_time(text, &real), real != 7);
    check_refused("flops", text, units_flops(text, &real), real != 7);
}

TEST(signs_spaces_hex_and_words_are_no_quantities)
{
    (void)state;
    for (size_t i = 0; i < ROWS(never); i++)
        nobody_takes(never[i]);
}

static void takes_reals(const char *what, bool (*parse)(const char *, double *),
                        const struct row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double value = -1;
        if (!parse(rows[i].text, &value))
            fail_msg("units_%s: '%s' was refused", what, rows[i].text);
        if (fabs(value - rows[i].value) > 1e-15 * fabs(rows[i].value))
            fail_msg("units_%s: '%s' gave %.17g, not %.17g", what, rows[i].text, value,
                     rows[i].value);
    }
}

static void refuses_reals(const char *what, bool (*parse)(const char *, double *),
                          const char *const *texts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double value = 7;
        bool taken = parse(texts[i], &value);
        check_refused(what, texts[i], taken, value != 7);
    }
}

TEST(counts_are_plain_whole_numbers)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},
        {"32", 32},
        {"007", 7},
        {"9007199254740993", UINT64_C(9007199254740993)},
        {"18446744073709551615", UINT64_MAX},
    };
    static const char *const bad[] = {
        "1.0", "1e3", "1k", "0.5", "18446744073709551616", "99999999999999999999", "1_000",
    };
    for (size_t i = 0; i < ROWS(good); i++) {
        uint64_t value = 1;
        assert_true(units_count(good[i].text, &value));
        assert_true(value == good[i].value);
    }
    for (size_t i = 0; i < ROWS(bad); i++) {
        uint64_t value = 7;
        bool taken = units_count(bad[i], &value);
        check_refused("count", bad[i], taken, value != 7);
    }
}

TEST(numbers_are_decimals_with_or_without_exponent)
{
    (void)state;
    static const struct row good[] = {
        {"0", 0},         {"0.5", 0.5},  {".5", 0.5},    {"5.", 5},
        {"1e-3", 1e-3},   {"1E+3", 1e3}, {"0.3", 0.3},   {"3.14159", 3.14159},
        {"1e308", 1e308}, {"1e-400", 0}, {"00.10", 0.1}, {"2.5e2", 250},
    };
    static const char *const bad[] = {"1s", "1B", "1k", "1e309", "1f", "1e5x", "1d"};
    takes_reals("number", units_number, good, ROWS(good));
    refuses_reals("number", units_number, bad, ROWS(bad));
    double value;
    assert_true(units_number("0.3", &value));
    assert_true(value == 0.3); /* to the last bit */
}

TEST(sizes_tell_kB_from_KiB_and_are_whole_bytes)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t value;
    } good[] = {
        {"0", 0},
        {"0B", 0},
        {"4096", 4096},
        {"4096B", 4096},
        {"2MB", 2000000},
        {"2MiB", 2097152},
        {"64KiB", 65536},
        {"64kB", 64000},
        {"64KB", 64000},
        {"1.5kB", 1500},
        {"2.3MB", 2300000},
        {"0.7kB", 700},
        {"1.001kB", 1001},
        {"1.1GB", UINT64_C(1100000000)},
        {"3GiB", UINT64_C(3221225472)},
        {"1TB", UINT64_C(1000000000000)},
        {"1TiB", UINT64_C(1099511627776)},
        {"0.5KiB", 512},
        {"1e3", 1000},
        {"1e3MB", UINT64_C(1000000000)},
        {"9007199254740992", UINT64_C(9007199254740992)},
        {"8192TiB", UINT64_C(9007199254740992)},
    };
    static const char *const bad[] = {
        "1.5B", "0.5",     "1.0001kB", "2mb",     "2Mb",   "2Mbit", "2M",
        "2kb",  "2kib",    "2KIB",     "2MBs",    "2MB/s", "2PB",   "2 MB",
        "2BM",  "1e300TB", "1e16",     "8193TiB", "MB",    "2MBMB", "2.00000001MB",
    };
    for (size_t i = 0; i < ROWS(good); i++) {
        uint64_t value = 1;
        if (!units_size(good[i].text, &value) || value != good[i].value)
            fail_msg("units_size: '%s' gave %llu", good[i].text, (unsigned long long)value);
    }
    for (size_t i = 0; i < ROWS(bad); i++) {
        uint64_t value = 7;
        bool taken = units_size(bad[i], &value);
        check_refused("size", bad[i], taken, value != 7);
    }
}

TEST(every_size_of_whole_bytes_is_taken_in_kB)
{
    (void)state;
    for (uint64_t bytes = 1; bytes < 300000; bytes++) {
        char text[40];
        (void)snprintf(text, sizeof text, "%llu.%03llukB", (unsigned long long)bytes / 1000,
                       (unsigned long long)bytes % 1000);
        uint64_t value = 0;
        if (!units_size(text, &value) || value != bytes)
            fail_msg("units_size: '%s' gave %llu", text, (unsigned long long)value);
    }
}

TEST(rates_tell_bits_from_bytes)
{
    (void)state;
    static const struct row good[] = {
        {"10Gbit", 1e10},   {"10Gbit/s", 1e10},   {"10Gbps", 1e10},   {"10Gb/s", 1e10},
        {"10Gb", 1e10},     {"10gbit", 1e10},     {"10Gbits", 1e10},  {"10Gbits/s", 1e10},
        {"10GBit/s", 1e10}, {"1.25GB/s", 1e10},   {"1.25GBps", 1e10}, {"1250MB/s", 1e10},
        {"1GB/s", 8e9},     {"1Gb/s", 1e9},       {"100Mbit", 1e8},   {"100mbit", 1e8},
        {"100kbit", 1e5},   {"100Kbit", 1e5},     {"1Tbit", 1e12},    {"1Pbit", 1e15},
        {"0bit", 0},        {"8bit", 8},          {"1B/s", 8},        {"1b/s", 1},
        {"9600bps", 9600},  {"2.5e3Mbit", 2.5e9}, {"56kbps", 56000},
    };
    static const char *const bad[] = {
        "10",   "0",         "10G",       "10GB",   "1GiB/s", "10Gbyte", "10Gbit/m",
        "10Gs", "10Gbit/S",  "10GBPS",    "10GBIT", "10G/s",  "10Ebit",  "10GMbit",
        "10/s", "10bit/s/s", "1e308GB/s", "G",      "Gbit",   "10Gbit.", "10s",
    };
    takes_reals("rate", units_rate, good, ROWS(good));
    refuses_reals("rate", units_rate, bad, ROWS(bad));
}

TEST(times_need_a_unit_unless_they_are_zero)
{
    (void)state;
    static const struct row good[] = {
        {"0", 0},        {"0.0", 0},      {"0s", 0},       {"0e5", 0},     {"50us", 50e-6},
        {"2ms", 2e-3},   {"3s", 3},       {"7ns", 7e-9},   {"1.5min", 90}, {"2h", 7200},
        {"0.25s", 0.25}, {"1e-3s", 1e-3}, {"1e3us", 1e-3},
    };
    static const char *const bad[] = {
        "50",     "0.1", "1e-9", "50u", "50m", "50S",    "50US",   "50Ms",     "50sec", "2d",
        "2hours", "us",  "s",    "0x",  "0k",  "50us/s", "1e308h", "1e307min", "50 us", "1m30s",
    };
    takes_reals("time", units_time, good, ROWS(good));
    refuses_reals("time", units_time, bad, ROWS(bad));
}

TEST(flops_need_no_unit_and_take_any_case)
{
    (void)state;
    static const struct row good[] = {
        {"1e11", 1e11},         {"0", 0},
        {"100G", 1e11},         {"100g", 1e11},
        {"4.2TFLOP/s", 4.2e12}, {"4.2Tflops", 4.2e12},
        {"6T", 6e12},           {"6Tf", 6e12},
        {"1PFLOPS/s", 1e15},    {"5FLOP/s", 5},
        {"5kflop", 5000},       {"0.5M", 5e5},
    };
    static const char *const bad[] = {
        "1E12x", "6TB", "6Tb/s", "6TT", "6Tflop/", "6T/s", "6 T", "1e308P", "6E", "6TFLOP/ss", "T",
    };
    takes_reals("flops", units_flops, good, ROWS(good));
    refuses_reals("flops", units_flops, bad, ROWS(bad));
}

TEST(long_texts_do_no_harm)
{
    (void)state;
    char text[5000];
    memset(text, '9', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    nobody_takes(text);
    text[1] = 'e';
    nobody_takes(text);
    memset(text, 'x', sizeof text - 1);
    text[0] = '1';
    nobody_takes(text);
}

/* ---- showing ---- */

struct shown {
    double value;
    const char *text;
};

static void shows(char *(*show)(double, char[UNITS_TEXT]), const struct shown *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char out[UNITS_TEXT];
        assert_ptr_equal(show(rows[i].value, out), out);
        assert_string_equal(out, rows[i].text);
    }
}

TEST(counts_show_three_digits_and_a_prefix)
{
    (void)state;
    static const struct shown rows[] = {
        {0, "0"},
        {1, "1"},
        {0.5, "0.5"},
        {12.34, "12.3"},
        {999, "999"},
        {999.4, "999"},
        {999.6, "1 k"}, /* not 1e+03 */
        {1000, "1 k"},
        {1234, "1.23 k"},
        {999499, "999 k"},
        {999500, "1 M"},
        {143667240, "144 M"},
        {1e9, "1 G"},
        {2.5e12, "2.5 T"},
        {1e15, "1 P"},
        {999.4e15, "999 P"},
        {1e30, "1.00e+15 P"},
        {1e-30, "1e-30"},
        {-1500, "-1.5 k"},
    };
    shows(units_show_count, rows, ROWS(rows));
}

TEST(bytes_rates_and_flops_carry_their_unit)
{
    (void)state;
    static const struct shown bytes[] = {
        {0, "0 B"},      {1, "1 B"},        {999.4, "999 B"},
        {999.6, "1 kB"}, {2.1e6, "2.1 MB"}, {1e30, "1.00e+15 PB"},
    };
    static const struct shown rates[] = {
        {0, "0 bit/s"},
        {1e10, "10 Gbit/s"},
        {9600, "9.6 kbit/s"},
        {1e30, "1.00e+15 Pbit/s"},
    };
    static const struct shown flops[] = {
        {0, "0 FLOP/s"},
        {4.18e12, "4.18 TFLOP/s"},
        {1e11, "100 GFLOP/s"},
    };
    shows(units_show_bytes, bytes, ROWS(bytes));
    shows(units_show_rate, rates, ROWS(rates));
    shows(units_show_flops, flops, ROWS(flops));
}

TEST(times_go_down_to_nanoseconds)
{
    (void)state;
    static const struct shown rows[] = {
        {0, "0 s"},       {1, "1 s"},           {59.94, "59.9 s"},   {1.25e-3, "1.25 ms"},
        {50e-6, "50 us"}, {999.4e-6, "999 us"}, {999.6e-6, "1 ms"},  {0.9996, "1 s"},
        {7e-9, "7 ns"},   {7e-12, "0.007 ns"},  {1e-30, "1e-21 ns"}, {999.4, "999 s"},
    };
    shows(units_show_time, rows, ROWS(rows));
}

TEST(no_value_overruns_its_text)
{
    (void)state;
    static const double values[] = {DBL_MAX,  -DBL_MAX, DBL_MIN,   -DBL_MIN, -5e-324,
                                    INFINITY, NAN,      -INFINITY, 1e300,    -999.6};
    char *(*const shows_all[])(double, char[UNITS_TEXT]) = {
        units_show_count, units_show_bytes, units_show_rate, units_show_time, units_show_flops,
    };
    for (size_t i = 0; i < ROWS(values); i++)
        for (size_t j = 0; j < ROWS(shows_all); j++) {
            char out[UNITS_TEXT + 1];
            out[UNITS_TEXT] = '#';
            size_t len = strlen(shows_all[j](values[i], out));
            assert_in_range(len, 1, UNITS_TEXT - 2); /* whole, not cut at the end */
            assert_int_equal(out[UNITS_TEXT], '#');
        }
}

TEST(several_fit_into_one_line)
{
    (void)state;
    char a[UNITS_TEXT], b[UNITS_TEXT], line[80];
    (void)snprintf(line, sizeof line, "%s in %s", units_show_bytes(2e6, a),
                   units_show_time(0.001, b));
    assert_string_equal(line, "2 MB in 1 ms");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signs_spaces_hex_and_words_are_no_quantities),
        cmocka_unit_test(counts_are_plain_whole_numbers),
        cmocka_unit_test(numbers_are_decimals_with_or_without_exponent),
        cmocka_unit_test(sizes_tell_kB_from_KiB_and_are_whole_bytes),
        cmocka_unit_test(every_size_of_whole_bytes_is_taken_in_kB),
        cmocka_unit_test(rates_tell_bits_from_bytes),
        cmocka_unit_test(times_need_a_unit_unless_they_are_zero),
        cmocka_unit_test(flops_need_no_unit_and_take_any_case),
        cmocka_unit_test(long_texts_do_no_harm),
        cmocka_unit_test(counts_show_three_digits_and_a_prefix),
        cmocka_unit_test(bytes_rates_and_flops_carry_their_unit),
        cmocka_unit_test(times_go_down_to_nanoseconds),
        cmocka_unit_test(no_value_overruns_its_text),
        cmocka_unit_test(several_fit_into_one_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
