/* What the example mlp is told on its command line. */
#ifndef TRIDENT_EXAMPLES_MLP_OPTIONS_H
#define TRIDENT_EXAMPLES_MLP_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

enum { MLP_RELU, MLP_TANH };
enum { MLP_FACTORS, MLP_DENSE };

struct mlp_options {
    uint64_t hidden, layers;
    uint64_t batch;   /* of one rank */
    uint64_t stacked; /* how many ranks' batches each process computes */
    uint64_t steps;
    uint64_t seed;
    uint64_t activation, give;
    double lr;
    const char *scheme; /* NULL: the planner chooses */
    bool json, help, small;
};

/* The names of an activation and of a form to give. Static storage. */
const char *mlp_activation_name(uint64_t activation);
const char *mlp_give_name(uint64_t give);

/* Fills all of *o, strings borrowed from argv. Returns 0, or 2 after it has told stderr
 * what is wrong. With help set the rest is not to be used. */
int mlp_options_read(int argc, char **argv, struct mlp_options *o);

void mlp_options_help(void); /* to stdout */

#endif
