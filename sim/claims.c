/* The papers' rows. */
#include "sim/claims.h"

#include <math.h>

#define POSEIDON(id_, what_, paper_, value_, model_, system_, nodes_, gbit_)                       \
    .id = (id_), .what = (what_), .paper = (paper_), .value = (value_), .nodes = (nodes_),         \
    .gbit = (gbit_), .ours = {.model = (model_), .system = (system_)}
#define THESIS(id_, what_, paper_, value_)                                                         \
    .id = (id_), .what = (what_), .paper = (paper_), .value = (value_), .nodes = 4, .gbit = 1
#define RESNET    "resnet110_cifar10"
#define INCEPTION "inception_v4_slim"
#define TOP_1     0.02 /* one value in a hundred, with its index, both ways */

static const struct claim claims[] = {
    {POSEIDON("P001", "VGG19-22K, Poseidon, 16 nodes, 10 Gbit/s", "15.5x", 15.5, "vgg19_22k",
              "poseidon", 16, 10)},
    {POSEIDON("P002", "Inception-V3, Poseidon, 32 nodes, 40 Gbit/s", "31.5x", 31.5,
              "inception_v3_aux", "poseidon", 32, 40)},
    {POSEIDON("P003", "Inception-V3, stock TensorFlow, 32 nodes, 40 Gbit/s", "20x", 20,
              "inception_v3_aux", "tensor-ps", 32, 40)},
    {POSEIDON("P004", "Inception-V3, Poseidon over stock TensorFlow, 32 nodes", "1.5 times", 1.5,
              "inception_v3_aux", "poseidon", 32, 40),
     .kind = CLAIM_GAIN, .against = {.model = "inception_v3_aux", .system = "tensor-ps"}},
    {POSEIDON("P005", "VGG19-22K, stock TensorFlow, 32 nodes, 40 Gbit/s", "below 1", NAN,
              "vgg19_22k", "tensor-ps", 32, 40),
     .note = "whole tensors alone do not explain it: the paper's servers moved less than 0.9 GB/s"},
    {POSEIDON("P006", "VGG19-22K, PS, 16 nodes, 40 Gbit/s", "8x", 8, "vgg19_22k", "ps", 16, 40)},
    {POSEIDON("P007", "VGG19-22K, Poseidon, 32 nodes, 40 Gbit/s", "30x", 30, "vgg19_22k",
              "poseidon", 32, 40)},
    {POSEIDON("P008", "VGG19-22K, PS, 16 nodes, 10 Gbit/s", "4x", 4, "vgg19_22k", "ps", 16, 10)},
    {POSEIDON("P043", "GoogLeNet, Caffe+WFBP, 32 nodes, 40 Gbit/s", "almost linear", 32,
              "googlenet_aux", "wfbp", 32, 40)},
    {POSEIDON("P043", "VGG19, Caffe+WFBP, 32 nodes, 40 Gbit/s", "almost linear", 32, "vgg19",
              "wfbp", 32, 40)},
    {POSEIDON("P044", "VGG19-22K, Caffe+WFBP, 32 nodes, 40 Gbit/s", "21.5x", 21.5, "vgg19_22k",
              "wfbp", 32, 40)},
    {POSEIDON("P045", "VGG19-22K, Poseidon-Caffe, 32 nodes, 40 Gbit/s", "29.5x", 29.5, "vgg19_22k",
              "poseidon", 32, 40)},
    {POSEIDON("P047", "Inception-V3, stock TensorFlow, 32 nodes (Fig. 6)", "10x", 10,
              "inception_v3_aux", "tensor-ps", 32, 40),
     .note = "the abstract says 20x for the same case"},
    {POSEIDON("P048", "VGG19, stock TensorFlow, 32 nodes, 40 Gbit/s", "fails to scale", NAN,
              "vgg19", "tensor-ps", 32, 40)},
    {POSEIDON("P049", "Inception-V3, Poseidon-TF, 32 nodes, 40 Gbit/s", "almost linear", 32,
              "inception_v3_aux", "poseidon", 32, 40)},
    {POSEIDON("P049", "VGG19, Poseidon-TF, 32 nodes, 40 Gbit/s", "almost linear", 32, "vgg19",
              "poseidon", 32, 40)},
    {POSEIDON("P050", "VGG19-22K, TF-WFBP, 32 nodes, 40 Gbit/s", "22x", 22, "vgg19_22k", "wfbp", 32,
              40)},
    {POSEIDON("P050", "VGG19-22K, Poseidon-TF, 32 nodes, 40 Gbit/s", "30x", 30, "vgg19_22k",
              "poseidon", 32, 40)},
    {POSEIDON("P054", "GoogLeNet, 4 nodes of 8 GPUs, 10 Gbit/s", "32x", 32, "googlenet_aux",
              "poseidon", 4, 10),
     .times = 8, .note = "gradients are added up inside a node first; a K80 is taken as a Titan X"},
    {POSEIDON("P054", "VGG19, 4 nodes of 8 GPUs, 10 Gbit/s", "28x", 28, "vgg19", "poseidon", 4, 10),
     .times = 8, .note = "gradients are added up inside a node first; a K80 is taken as a Titan X"},
    {POSEIDON("P055", "ResNet-152, Poseidon-TF, 32 nodes, 40 Gbit/s", "31x", 31, "resnet152",
              "poseidon", 32, 40)},
    {POSEIDON("P057", "VGG19, PS, 16 nodes, 10 Gbit/s", "8x", 8, "vgg19", "wfbp", 16, 10),
     .note = "in and out on one rate: what P008 needs is too slow for this; full duplex gives 12x"},
    {POSEIDON("P058", "VGG19, Poseidon, 16 nodes, 10 Gbit/s", "near-linear", 16, "vgg19",
              "poseidon", 16, 10)},
    {POSEIDON("P058", "VGG19-22K, Poseidon, 16 nodes, 10 Gbit/s", "near-linear", 16, "vgg19_22k",
              "poseidon", 16, 10)},
    {POSEIDON("P059", "VGG19, PS, 16 nodes: rate for near-linear", "30 Gbit/s", 30, "vgg19", "wfbp",
              16, 0),
     .kind = CLAIM_RATE},
    {POSEIDON("P061", "VGG19, Adam's strategy, 8 nodes, 40 Gbit/s", "5x", 5, "vgg19", "adam", 8,
              40)},
    {POSEIDON("P062", "VGG19, Adam's strategy, 8 nodes: busiest over mean", "imbalanced", NAN,
              "vgg19", "adam", 8, 40),
     .kind = CLAIM_BALANCE},
    {POSEIDON("P062", "VGG19, Poseidon, 8 nodes: busiest over mean", "even", NAN, "vgg19",
              "poseidon", 8, 40),
     .kind = CLAIM_BALANCE},
    {POSEIDON("P065", "VGG19, CNTK 1-bit, 8 nodes", "5.8x", 5.8, "vgg19", "onebit", 8, 40)},
    {POSEIDON("P065", "VGG19, CNTK 1-bit, 16 nodes", "11x", 11, "vgg19", "onebit", 16, 40)},
    {POSEIDON("P065", "VGG19, CNTK 1-bit, 32 nodes", "20x", 20, "vgg19", "onebit", 32, 40),
     .note = "CNTK's own overheads are not known; the time to pack and unpack is not charged"},
    {THESIS("T004", "Inception-v4, distributed TensorFlow, 4 nodes", "below 1", NAN),
     .ours = {.model = INCEPTION, .system = "tensor-ps"}},
    {THESIS("T005", "DenseNet over ResNet, parameter server, 4 nodes", "above 1", NAN),
     .kind = CLAIM_GAIN, .ours = {.model = "densenet_cifar10", .system = "ps"},
     .against = {.model = RESNET, .system = "ps"}},
    {THESIS("T010", "ResNet, heuristic placement over uniform", "above 1", NAN), .kind = CLAIM_GAIN,
     .ours = {.model = RESNET, .system = "wfbp", .placement = "lpt"},
     .against = {.model = RESNET, .system = "wfbp", .placement = "uniform"}},
    {THESIS("T010", "Inception-v4, uniform placement over round-robin", "above 1", NAN),
     .kind = CLAIM_GAIN, .ours = {.model = INCEPTION, .system = "wfbp", .placement = "uniform"},
     .against = {.model = INCEPTION, .system = "wfbp", .placement = "round-robin"}},
    {THESIS("T013", "ResNet, WFBP over traditional", "1.54 times", 1.54), .kind = CLAIM_GAIN,
     .ours = {.model = RESNET, .system = "wfbp"}, .against = {.model = RESNET, .system = "ps"}},
    {THESIS("T014", "Inception-v4, WFBP over traditional", "1.29 times", 1.29), .kind = CLAIM_GAIN,
     .ours = {.model = INCEPTION, .system = "wfbp"},
     .against = {.model = INCEPTION, .system = "ps"}},
    {THESIS("T017", "ResNet, SSP 5 over top-1 %", "above 1", NAN), .kind = CLAIM_GAIN,
     .ours = {.model = RESNET, .system = "wfbp", .consistency = "ssp:5"},
     .against = {.model = RESNET, .system = "wfbp", .codec = TOP_1},
     .note =
         "here the wire is what holds ResNet back, and a tenth of jitter gives SSP little to do"},
    {THESIS("T017", "Inception-v4, top-1 % over SSP 5", "above 1", NAN), .kind = CLAIM_GAIN,
     .ours = {.model = INCEPTION, .system = "wfbp", .codec = TOP_1},
     .against = {.model = INCEPTION, .system = "wfbp", .consistency = "ssp:5"}},
    {THESIS("T018", "ResNet, all optimizations, 4 nodes", "3.91x", 3.91),
     .ours = {.model = RESNET, .system = "wfbp", .consistency = "ssp:5", .codec = TOP_1}},
    {THESIS("T018", "Inception-v4, all optimizations, 4 nodes", "3.78x", 3.78),
     .ours = {.model = INCEPTION, .system = "wfbp", .consistency = "ssp:5", .codec = TOP_1}},
    {THESIS("T019", "ResNet, all optimizations, 4 nodes", "near-linear", 4),
     .ours = {.model = RESNET, .system = "wfbp", .consistency = "ssp:5", .codec = TOP_1}},
};

const struct claim *claim_at(size_t i)
{
    return i < sizeof claims / sizeof claims[0] ? &claims[i] : NULL;
}

static bool is_thesis(const struct claim *claim)
{
    return claim->id[0] == 'T';
}

const char *claim_settings(const struct claim *claim)
{
    return is_thesis(claim) ? "full duplex, 0.05 ms a message, jitter 10 %, lpt"
                            : "in and out share the rate, 0.3 ms a message, hash";
}

const char *claim_reason(const struct claim *claim)
{
    return is_thesis(claim)
               ? "its gains of WFBP need full duplex; many small partitions must cost something "
                 "(Fig. 5.1); SSP needs workers that vary"
               : "its Table 1 counts in and out together; 0.3 ms a 2 MiB message makes its 40 "
                 "Gbit/s rows and its 10 Gbit/s rows fit at once; no copies: its own one-node "
                 "numbers for them would make PS slower than it says";
}

/* ---- running ---- */

static tri_status run_case(const struct claim *claim, const struct claim_case *one, double gbit,
                           const struct claim_models *models, const struct mem *mem,
                           struct study_result *result, tri_error *err)
{
    bool thesis = is_thesis(claim);
    const char *placement = one->placement != NULL ? one->placement : thesis ? "lpt" : "hash";
    struct study study = {.profile = models->find(models->ctx, one->model, err),
                          .system = study_system_find(one->system),
                          .nodes = claim->nodes,
                          .bits_s = gbit * 1e9,
                          .shared = !thesis,
                          .message_s = thesis ? 0.05e-3 : 0.3e-3,
                          .jitter = thesis ? 0.1 : 0,
                          .consistency = one->consistency,
                          .codec = {.ratio = one->codec},
                          .placement = placement_find(placement),
                          .chunk_bytes = (uint64_t)2 << 20,
                          .iterations = thesis ? 20 : 5,
                          .seed = 1};
    return study.profile != NULL ? study_run(&study, mem, result, err) : TRI_EINPUT;
}

static tri_status run_speedup(const struct claim *claim, const struct claim_case *one, double gbit,
                              const struct claim_models *models, const struct mem *mem,
                              double *speedup, tri_error *err)
{
    struct study_result result;
    tri_status status = run_case(claim, one, gbit, models, mem, &result, err);
    if (status != TRI_OK)
        return status;
    *speedup = result.speedup * (claim->times > 0 ? claim->times : 1);
    study_free(&result, mem);
    return TRI_OK;
}

/* The first of the rates from 1 to 100 Gbit/s that is enough; NaN if none is. */
static tri_status run_rate(const struct claim *claim, const struct claim_models *models,
                           const struct mem *mem, double *rate, tri_error *err)
{
    *rate = NAN;
    for (unsigned gbit = 1; gbit <= 100; gbit++) {
        double speedup = 0;
        tri_status status = run_speedup(claim, &claim->ours, gbit, models, mem, &speedup, err);
        if (status != TRI_OK)
            return status;
        if (speedup >= 0.95 * claim->nodes) {
            *rate = gbit;
            return TRI_OK;
        }
    }
    return TRI_OK;
}

static tri_status run_balance(const struct claim *claim, const struct claim_models *models,
                              const struct mem *mem, double *balance, tri_error *err)
{
    struct study_result result;
    double most = 0, sum = 0;
    tri_status status = run_case(claim, &claim->ours, claim->gbit, models, mem, &result, err);
    if (status != TRI_OK)
        return status;
    for (uint32_t n = 0; n < result.timed.nodes; n++) {
        double bytes = result.timed.sent[n] + result.timed.received[n];
        most = fmax(most, bytes);
        sum += bytes;
    }
    *balance = most * result.timed.nodes / sum;
    study_free(&result, mem);
    return TRI_OK;
}

tri_status claim_run(const struct claim *claim, const struct claim_models *models,
                     const struct mem *mem, double *ours, tri_error *err)
{
    double against = 1;
    if (claim->kind == CLAIM_RATE)
        return run_rate(claim, models, mem, ours, err);
    if (claim->kind == CLAIM_BALANCE)
        return run_balance(claim, models, mem, ours, err);
    tri_status status = run_speedup(claim, &claim->ours, claim->gbit, models, mem, ours, err);
    if (status == TRI_OK && claim->kind == CLAIM_GAIN)
        status = run_speedup(claim, &claim->against, claim->gbit, models, mem, &against, err);
    if (status == TRI_OK)
        *ours /= against;
    return status;
}
