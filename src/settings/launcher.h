/* Who started this process, and what it says about the job: torchrun, Open MPI, Slurm, PMI.
 *
 * settings.c asks here for what neither the program's options nor TRIDENT_ variables have said. */
#ifndef TRIDENT_SETTINGS_LAUNCHER_H
#define TRIDENT_SETTINGS_LAUNCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "os/net.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LAUNCHER_ADDRESS = 300, LAUNCHER_TOKEN = 65, LAUNCHER_ORIGIN = 32 };

/* A value and the variable, or the service, that it comes from. */
struct launcher_number {
    bool given;
    uint32_t value;
    char origin[LAUNCHER_ORIGIN]; /* "OMPI_COMM_WORLD_RANK" */
};

struct launcher {
    const char *name; /* "torchrun", "Open MPI", "Slurm", "PMI"; NULL: none that is known */
    struct launcher_number rank, workers, local_workers;
};

/* From the environment alone: the first of torchrun (RANK, WORLD_SIZE, LOCAL_WORLD_SIZE), Open MPI
 * (OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_SIZE), PMI (PMI_RANK, PMI_SIZE, MPI_LOCALNRANKS), Slurm
 * (SLURM_PROCID, SLURM_STEP_NUM_TASKS, tasks of this node) that has both rank and size. One task of
 * Slurm (sbatch's script, salloc's shell) is no job. TRI_EINPUT names a variable whose number is
 * none. */
tri_status launcher_find(struct launcher *out, tri_error *err);

/* Where rank 0 is, and the secret, agreed upon by way of PMIx (PMIx_Put, Fence, Get) if the
 * launcher offers it: rank 0 chooses. *found is false where there is no PMIx (no PMIX_NAMESPACE in
 * the environment); then nothing is written. TRI_EIO where there is, but cannot be used. Rank 0
 * takes 127.0.0.1 if all processes of the job are on this machine, else launcher_own_address().
 * Every process of the job has to call it. Waits at most timeout_ms. */
struct launcher_meeting {
    char coordinator[LAUNCHER_ADDRESS]; /* "host:port" */
    char token[LAUNCHER_TOKEN];
};
tri_status launcher_meet(uint32_t rank, uint32_t workers, uint32_t timeout_ms,
                         struct launcher_meeting *out, bool *found, tri_error *err);

/* Without PMIx: the first host of Slurm's list of nodes (SLURM_STEP_NODELIST, SLURM_JOB_NODELIST;
 * "n[1-3,7],m1"), and a port made from SLURM_JOB_ID and SLURM_STEP_ID. False: this is not Slurm.
 * The token has to come from elsewhere. */
bool launcher_slurm_address(char out[LAUNCHER_ADDRESS]);

/* This machine's address, "10.1.2.3:0", as other machines reach it: the one that
 * TRIDENT_INTERFACE picks, else that of its name, else of its first interface; never loopback
 * unless there is nothing else. A number, since names may mean something else elsewhere. */
tri_status launcher_own_address(char out[NET_TEXT], tri_error *err);

/* ---- Slurm's notation; pure, and safe with any text ---- */

/* The first of "n[1-3,7],m1", with its zeros: "n[001-3]" begins with n001. False: it is no list. */
bool launcher_first_host(const char *list, char *out, size_t size);
/* How many tasks a node has in "2(x3),1". False: the list does not say. */
bool launcher_tasks(const char *list, uint32_t node, uint32_t *out);

#ifdef __cplusplus
}
#endif

#endif
