/* The command line of the example mlp: one table for the parser and the help. */
#include "examples/mlp_options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const activations[] = {"relu", "tanh", NULL};
static const char *const forms[] = {"factors", "dense", NULL};

const char *mlp_activation_name(uint64_t activation)
{
    return activations[activation];
}

const char *mlp_give_name(uint64_t give)
{
    return forms[give];
}

enum kind { NUMBER, REAL, CHOICE, TEXT, FLAG };

struct row {
    const char *name, *value, *help;
    enum kind kind;
    size_t offset; /* of the field */
    uint64_t least, most;
    const char *const *choices;
};

#define FIELD(name) offsetof(struct mlp_options, name)

static const struct row rows[] = {
    {"--hidden", "N", "width of the input and of every layer [4096]", NUMBER, FIELD(hidden), 1,
     65536, NULL},
    {"--layers", "N", "fully connected layers [4]", NUMBER, FIELD(layers), 1, 64, NULL},
    {"--batch", "K", "samples per rank and step [32]", NUMBER, FIELD(batch), 1, 4096, NULL},
    {"--union", "W", "compute the batches of W ranks in each process [1]", NUMBER, FIELD(stacked),
     1, 64, NULL},
    {"--steps", "N", "iterations [20]", NUMBER, FIELD(steps), 1, UINT32_MAX, NULL},
    {"--seed", "S", "of weights and data [1]", NUMBER, FIELD(seed), 0, UINT64_MAX, NULL},
    {"--activation", "A", "relu or tanh, between the layers [relu]", CHOICE, FIELD(activation), 0,
     0, activations},
    {"--give", "FORM", "what is handed to the library: factors or dense [factors]", CHOICE,
     FIELD(give), 0, 0, forms},
    {"--scheme", "NAME", "how all layers travel [the planner chooses]", TEXT, FIELD(scheme), 0, 0,
     NULL},
    {"--lr", "X", "learning rate [0.5]", REAL, FIELD(lr), 0, 0, NULL},
    {"--small", NULL, "3 layers of 64, tanh; what is given beside it wins", FLAG, FIELD(small), 0,
     0, NULL},
    {"--json", NULL, "print the result as one line of JSON", FLAG, FIELD(json), 0, 0, NULL},
    {"--help", NULL, "show this", FLAG, FIELD(help), 0, 0, NULL},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

void mlp_options_help(void)
{
    printf("Usage: mlp [options]\n"
           "Train a fully connected net on made-up data, alone or with others.\n\n");
    for (size_t i = 0; i < ROWS; i++) {
        char left[32];
        snprintf(left, sizeof left, "%s %s", rows[i].name,
                 rows[i].value != NULL ? rows[i].value : "");
        printf("  %-18s %s\n", left, rows[i].help);
    }
    printf("\nExamples: mlp --small\n"
           "          trident run -n 2 -- mlp --steps 50 --json\n"
           "Exit codes: 0 trained, 1 failed, 2 bad usage.\n");
}

static int wrong(const char *text, const char *what, const char *next)
{
    fprintf(stderr, "mlp: %s '%s'\n  try:   %s\n", text, what, next);
    return 2;
}

static int read_number(const struct row *row, const char *text, uint64_t *to)
{
    char range[96], *end;
    errno = 0;
    uint64_t x = strtoull(text, &end, 10);
    if (text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 && x >= row->least &&
        x <= row->most) {
        *to = x;
        return 0;
    }
    snprintf(range, sizeof range, "%s with a whole number from %llu to %llu", row->name,
             (unsigned long long)row->least, (unsigned long long)row->most);
    return wrong("impossible number", text, range);
}

static int read_real(const struct row *row, const char *text, double *to)
{
    char next[64], *end;
    double x = strtod(text, &end);
    if (end != text && *end == '\0' && isfinite(x) && x > 0) {
        *to = x;
        return 0;
    }
    snprintf(next, sizeof next, "%s with a number above 0, as 0.1", row->name);
    return wrong("impossible number", text, next);
}

static int read_choice(const struct row *row, const char *text, uint64_t *to)
{
    char next[64];
    for (uint64_t i = 0; row->choices[i] != NULL; i++)
        if (strcmp(row->choices[i], text) == 0) {
            *to = i;
            return 0;
        }
    snprintf(next, sizeof next, "%s %s or %s", row->name, row->choices[0], row->choices[1]);
    return wrong("no such choice:", text, next);
}

static int read_value(const struct row *row, const char *text, struct mlp_options *o)
{
    void *field = (char *)o + row->offset;
    switch (row->kind) {
    case NUMBER:
        return read_number(row, text, field);
    case REAL:
        return read_real(row, text, field);
    case CHOICE:
        return read_choice(row, text, field);
    case TEXT:
        *(const char **)field = text;
        return 0;
    case FLAG:
        break;
    }
    *(bool *)field = true;
    return 0;
}

static const struct row *find(const char *name)
{
    for (size_t i = 0; i < ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

static struct mlp_options defaults(bool small)
{
    return (struct mlp_options){
        .hidden = small ? 64 : 4096,
        .layers = small ? 3 : 4,
        .batch = small ? 8 : 32,
        .stacked = 1,
        .steps = 20,
        .seed = 1,
        .activation = small ? MLP_TANH : MLP_RELU,
        .lr = 0.5,
    };
}

int mlp_options_read(int argc, char **argv, struct mlp_options *o)
{
    bool small = false;
    for (int i = 1; i < argc; i++)
        small = small || strcmp(argv[i], "--small") == 0;
    *o = defaults(small);
    for (int i = 1; i < argc; i++) {
        const struct row *row = find(argv[i]);
        if (row == NULL)
            return wrong("no option", argv[i], "mlp --help");
        if (row->kind != FLAG && i + 1 == argc)
            return wrong("no value behind", argv[i], "mlp --help");
        int status = read_value(row, row->kind == FLAG ? "" : argv[++i], o);
        if (status != 0)
            return status;
    }
    return 0;
}
