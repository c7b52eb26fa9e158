/* Learners that exchange by Open MPI: the program bench/peers/mpi_learners.c, where it is built and
 * mpirun is installed. */
#ifndef TRIDENT_BENCH_MPI_H
#define TRIDENT_BENCH_MPI_H

#include "bench/crew.h"
#include "bench/lesson.h"

enum { MPI_PATH = 500 };

struct mpi {
    char program[MPI_PATH];
};

/* False: it cannot run; *why says what is missing. Static storage. */
bool mpi_find(struct mpi *out, const char **why);

struct mpi_run {
    const struct mpi *mpi;
    const struct learner_net *net; /* of lesson_text(), by its name */
    uint32_t batch;
    uint32_t nap_us; /* the server sleeps so long when there is nothing; 0: it lets others run */
    double seconds;
};

/* The body of a crew of one: two learners and a server of their own. Writes samples/s of both
 * learners to work_s of the board. */
tri_status mpi_body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err);

#endif
