/* A Python program, handed over on the command line. */
#include "bench/torch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/fcnet.h"

/* Arguments: seconds, width, layers, batch. All ranks stop after the same iteration because rank 0
 * times a few and tells the others how many to do. Buckets of 25 MB, DDP's default, overlap with
 * the backward pass. */
static const char fcnet_program[] =
    "import os, sys, time, torch\n"
    "import torch.distributed as dist\n"
    "seconds, width, layers, batch = float(sys.argv[1]), *map(int, sys.argv[2:5])\n"
    "torch.set_num_threads(1)\n"
    "rank, ranks = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
    "torch.manual_seed(1)\n"
    "parts = []\n"
    "for i in range(layers):\n"
    "    parts += [torch.nn.Linear(width, width)] + [torch.nn.ReLU()] * (i + 1 < layers)\n"
    "net = torch.nn.Sequential(*parts)\n"
    "if ranks > 1:\n"
    "    dist.init_process_group('gloo')\n"
    "    net = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)\n"
    "sgd = torch.optim.SGD(net.parameters(), lr=0.01)\n"
    "torch.manual_seed(2 + rank)\n"
    "x, y = torch.rand(batch, width) * 2 - 1, torch.rand(batch, width) * 2 - 1\n"
    "def step():\n"
    "    sgd.zero_grad(set_to_none=ranks == 1)\n"
    "    torch.nn.functional.mse_loss(net(x), y).backward()\n"
    "    sgd.step()\n"
    "for _ in range(2): step()\n"
    "start = time.monotonic()\n"
    "step()\n"
    "count = torch.tensor([max(2, round(seconds / (time.monotonic() - start)))])\n"
    "if ranks > 1: dist.broadcast(count, 0); dist.barrier()\n"
    "start = time.monotonic()\n"
    "for _ in range(int(count)): step()\n"
    "took = time.monotonic() - start\n"
    "if rank == 0: print(int(count) * batch * ranks / took)\n";

/* Arguments: seconds, net, batch, 1 for channels_last. Caffe's pooling rounds up. */
static const char engine_program[] =
    "import sys, time, torch\n"
    "from torch import nn\n"
    "seconds, batch, last = float(sys.argv[1]), int(sys.argv[3]), sys.argv[4] == '1'\n"
    "torch.set_num_threads(1)\n"
    "torch.manual_seed(1)\n"
    "if sys.argv[2] == 'quick':\n"
    "    net = nn.Sequential(nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True),\n"
    "        nn.ReLU(inplace=True), nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(inplace=True),\n"
    "        nn.AvgPool2d(3, 2, ceil_mode=True), nn.Conv2d(32, 64, 5, padding=2),\n"
    "        nn.ReLU(inplace=True), nn.AvgPool2d(3, 2, ceil_mode=True), nn.Flatten(),\n"
    "        nn.Linear(1024, 64), nn.Linear(64, 10))\n"
    "    x, y = torch.rand(batch, 3, 32, 32) - 0.5, torch.randint(10, (batch,))\n"
    "else:\n"
    "    parts = []\n"
    "    for i in range(4): parts += [nn.Linear(4096, 4096), nn.ReLU(inplace=True)]\n"
    "    net = nn.Sequential(*parts, nn.Linear(4096, 10))\n"
    "    x, y = torch.rand(batch, 4096) - 0.5, torch.randint(10, (batch,))\n"
    "if last:\n"
    "    net = net.to(memory_format=torch.channels_last)\n"
    "    x = x.to(memory_format=torch.channels_last)\n"
    "sgd = torch.optim.SGD(net.parameters(), lr=0.001)\n"
    "def step():\n"
    "    sgd.zero_grad(set_to_none=True)\n"
    "    nn.functional.cross_entropy(net(x), y).backward()\n"
    "    sgd.step()\n"
    "for _ in range(3): step()\n"
    "start, count = time.monotonic(), 0\n"
    "while count < 2 or time.monotonic() - start < seconds: step(); count += 1\n"
    "print(count * batch / (time.monotonic() - start))\n";

/* Arguments: seconds, words,length,classes (or mlp), batch. The texts are those of bench/learner.c.
 * A word has a gradient of its row (sparse) or all of them have one (dense): whatever is faster. */
static const char hogwild_program[] =
    "import sys, time, torch\n"
    "import torch.multiprocessing as mp\n"
    "from torch import nn\n"
    "seconds, what, batch = float(sys.argv[1]), sys.argv[2], int(sys.argv[3])\n"
    "torch.set_num_threads(1)\n"
    "torch.manual_seed(1)\n"
    "class Text(nn.Module):\n"
    "    def __init__(self, words, classes, sparse):\n"
    "        super().__init__()\n"
    "        self.embed = nn.Embedding(words, 120, padding_idx=0, sparse=sparse)\n"
    "        self.convs = nn.ModuleList(nn.Conv1d(120, 300, w, padding=w - 1) for w in (3, 4, 5))\n"
    "        self.hidden, self.labels = nn.Linear(900, 900), nn.Linear(900, classes)\n"
    "    def forward(self, tokens):\n"
    "        x = self.embed(tokens).transpose(1, 2)\n"
    "        x = torch.cat([torch.relu(conv(x).max(2)[0]) for conv in self.convs], 1)\n"
    "        return self.labels(torch.relu(self.hidden(x)))\n"
    "def linear():\n"
    "    parts = []\n"
    "    for i in range(4): parts += [nn.Linear(4096, 4096), nn.ReLU(inplace=True)]\n"
    "    return nn.Sequential(*parts, nn.Linear(4096, 10))\n"
    "if what == 'mlp':\n"
    "    count, kinds = batch, [linear]\n"
    "    x, y = torch.rand(batch, 4096) - 0.5, torch.randint(10, (batch,))\n"
    "else:\n"
    "    words, length, classes = map(int, what.split(','))\n"
    "    count = 4096\n"
    "    y, x = torch.randint(classes, (count,)), torch.randint(2, words, (count, length))\n"
    "    for _ in range(3):\n"
    "        x[torch.arange(count), torch.randint(length, (count,))] = \\\n"
    "            2 + (y * 4 + torch.randint(4, (count,))) % (words - 2)\n"
    "    kinds = [lambda: Text(words, classes, True), lambda: Text(words, classes, False)]\n"
    "def learn(net, number, ready, done):\n"
    "    torch.set_num_threads(1)\n"
    "    sgd = torch.optim.SGD(net.parameters(), lr=0.02)\n"
    "    at = number * count // 2 // batch * batch % count\n"
    "    def step(at):\n"
    "        sgd.zero_grad(set_to_none=True)\n"
    "        nn.functional.cross_entropy(net(x[at:at + batch]), y[at:at + batch]).backward()\n"
    "        sgd.step()\n"
    "        return (at + batch) % count\n"
    "    for _ in range(2): at = step(at)\n"
    "    ready.wait()\n"
    "    start, steps = time.monotonic(), 0\n"
    "    while steps < 2 or time.monotonic() - start < seconds: at = step(at); steps += 1\n"
    "    done.put(steps * batch / (time.monotonic() - start))\n"
    "def hogwild(make, learners):\n"
    "    net, ready, done = make().share_memory(), mp.Barrier(learners), mp.SimpleQueue()\n"
    "    all = [mp.Process(target=learn, args=(net, i, ready, done)) for i in range(learners)]\n"
    "    for one in all: one.start()\n"
    "    rate = sum(done.get() for _ in all)\n"
    "    for one in all: one.join()\n"
    "    return rate\n"
    "mp.set_start_method('fork')\n"
    "rates = [[hogwild(kind, n) for n in (2, 1)] for kind in kinds]\n"
    "print(*max(rates))\n";

static bool has_torch(const char *python)
{
    int how = 0;
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        (void)dup2(null, STDOUT_FILENO);
        (void)dup2(null, STDERR_FILENO);
        (void)execlp(python, python, "-c",
                     "import torch, torch.distributed as d; assert d.is_gloo_available() "
                     "if hasattr(d, 'is_gloo_available') else d.is_available()",
                     (char *)NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &how, 0) == pid && how == 0;
}

const char *torch_python(void)
{
    static const char *const names[] = {"python3", "/usr/bin/python3"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (has_torch(names[i]))
            return names[i];
    return NULL;
}

static void set_environment(const struct torch_run *run, uint32_t number)
{
    const struct {
        const char *name;
        uint32_t value;
    } rows[] = {{"RANK", number},       {"WORLD_SIZE", run->workers}, {"MASTER_PORT", run->port},
                {"OMP_NUM_THREADS", 1}, {"OPENBLAS_NUM_THREADS", 1},  {"MKL_NUM_THREADS", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char text[16];
        (void)snprintf(text, sizeof text, "%u", (unsigned)rows[i].value);
        (void)setenv(rows[i].name, text, 1);
    }
    (void)setenv("MASTER_ADDR", "127.0.0.1", 1);
    /* Debian 12's OpenBLAS does not know newer Xeons, and takes SSE3 there. */
    if (__builtin_cpu_supports("avx512f"))
        (void)setenv("OPENBLAS_CORETYPE", "SkylakeX", 0);
}

/* What the program is told, as texts. */
struct arguments {
    char texts[4][24];
};

static struct arguments arguments_of(const struct torch_run *run)
{
    struct arguments to = {{""}};
    (void)snprintf(to.texts[0], sizeof to.texts[0], "%g", run->seconds);
    if (run->net == TORCH_FCNET) {
        (void)snprintf(to.texts[1], sizeof to.texts[1], "%d", FCNET_WIDTH);
        (void)snprintf(to.texts[2], sizeof to.texts[2], "%d", FCNET_LAYERS);
        (void)snprintf(to.texts[3], sizeof to.texts[3], "%d", FCNET_BATCH);
    } else if (run->net == TORCH_HOGWILD) {
        (void)snprintf(to.texts[1], sizeof to.texts[1], "mlp");
        if (run->words > 0)
            (void)snprintf(to.texts[1], sizeof to.texts[1], "%u,%u,%u", (unsigned)run->words,
                           (unsigned)run->length, (unsigned)run->classes);
        (void)snprintf(to.texts[2], sizeof to.texts[2], "%u", (unsigned)run->batch);
    } else {
        (void)snprintf(to.texts[1], sizeof to.texts[1], "%s",
                       run->net == TORCH_QUICK ? "quick" : "mlp");
        (void)snprintf(to.texts[2], sizeof to.texts[2], "%u", (unsigned)run->batch);
        (void)snprintf(to.texts[3], sizeof to.texts[3], "%d", run->channels_last);
    }
    return to;
}

static void become(const struct torch_run *run, int output)
{
    struct arguments with = arguments_of(run);
    (void)dup2(output, STDOUT_FILENO);
    const char *program = run->net == TORCH_FCNET     ? fcnet_program
                          : run->net == TORCH_HOGWILD ? hogwild_program
                                                      : engine_program;
    (void)execlp(run->python, run->python, "-c", program, with.texts[0], with.texts[1],
                 with.texts[2], with.texts[3], (char *)NULL);
    _exit(127);
}

tri_status torch_body(void *ctx, uint32_t number, struct crew_board *board, tri_error *err)
{
    const struct torch_run *run = ctx;
    char text[64] = "";
    int ends[2], how = 0;
    size_t len = 0;
    set_environment(run, number);
    if (pipe(ends) != 0)
        return fail_errno(err, TRI_EIO, "cannot make a pipe");
    pid_t pid = fork();
    if (pid == 0)
        become(run, ends[1]);
    (void)close(ends[1]);
    for (ssize_t n = 1; pid > 0 && n > 0 && len + 1 < sizeof text; len += n > 0 ? (size_t)n : 0)
        n = read(ends[0], text + len, sizeof text - 1 - len);
    (void)close(ends[0]);
    if (pid < 0 || waitpid(pid, &how, 0) != pid || how != 0)
        return fail(err, TRI_EIO, "PyTorch's training failed; the lines above may say why");
    if (number == 0) {
        char *rest = text;
        board->work_s = strtod(text, &rest);
        board->numbers[0] = strtod(rest, NULL);
    }
    return TRI_OK;
}
