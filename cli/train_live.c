/* What a person sees while training goes on. */
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/train.h"
#include "os/clock.h"

enum { PART = 48, PARTS = 7, WIDTH = 100 };
static const double redraw_s = 0.15;

/* ---- the line ---- */

/* "1:05" or "2:03:07"; "" when nobody can tell. */
static void show_left(double seconds, char out[PART])
{
    out[0] = '\0';
    if (!(seconds >= 0 && seconds < 1e7))
        return;
    unsigned long all = (unsigned long)(seconds + 0.5), minutes = all / 60;
    if (minutes >= 60)
        (void)snprintf(out, PART, "%lu:%02lu:%02lu left", minutes / 60, minutes % 60, all % 60);
    else
        (void)snprintf(out, PART, "%lu:%02lu left", minutes, all % 60);
}

/* The last batch seldom ends with the epoch, so 10 may be 10.02. */
char *train_show_epochs(double epochs, char out[TRAIN_EPOCHS])
{
    if (epochs < 100)
        (void)snprintf(out, TRAIN_EPOCHS, "%.3g", epochs);
    else
        (void)snprintf(out, TRAIN_EPOCHS, "%.0f", epochs);
    return out;
}

static void show_parts(const struct train_moment *moment, char parts[PARTS][PART])
{
    char rate[UNITS_TEXT], epochs[TRAIN_EPOCHS];
    for (size_t i = 0; i < PARTS; i++)
        parts[i][0] = '\0';
    (void)snprintf(parts[0], PART, "epoch %.2f/%s", moment->epoch,
                   train_show_epochs(moment->epochs, epochs));
    if (!isnan(moment->loss))
        (void)snprintf(parts[1], PART, "loss %.4f", moment->loss);
    if (!isnan(moment->accuracy))
        (void)snprintf(parts[2], PART, "acc %.4f", moment->accuracy);
    if (moment->tested)
        (void)snprintf(parts[3], PART, "test %.4f", moment->test_accuracy);
    if (moment->samples_per_s > 0)
        (void)snprintf(parts[4], PART, "%.0f samples/s", moment->samples_per_s);
    if (moment->sent_per_s > 0)
        (void)snprintf(parts[5], PART, "%s/s", units_show_bytes(moment->sent_per_s, rate));
    show_left(moment->iteration < moment->iterations ? moment->left_s : NAN, parts[6]);
}

void train_live_line(const struct train_moment *moment, size_t width, char out[TRAIN_LINE])
{
    char parts[PARTS][PART];
    size_t used = 0;
    show_parts(moment, parts);
    out[0] = '\0';
    for (size_t i = 0; i < PARTS; i++) {
        size_t columns = strlen(parts[i]), gap = used > 0 ? 2 : 0;
        if (columns == 0)
            continue;
        if (used + gap + columns > width || used + gap + columns >= TRAIN_LINE)
            break;
        (void)snprintf(out + used, TRAIN_LINE - used, "%*s%s", (int)gap, "", parts[i]);
        used += gap + columns;
    }
}

/* ---- showing it ---- */

void train_live_init(struct train_live *live, FILE *file)
{
    *live = (struct train_live){.file = file};
    live->terminal = file != NULL && fileno(file) >= 0 && isatty(fileno(file)) == 1;
}

static size_t width_of(FILE *file)
{
    struct winsize size = {0};
    if (ioctl(fileno(file), TIOCGWINSZ, &size) != 0 || size.ws_col < 2)
        return WIDTH;
    return (size_t)size.ws_col - 1; /* the last column would begin a new line */
}

void train_live_clear(struct train_live *live)
{
    if (live->file == NULL || !live->drawn)
        return;
    fputs("\r\033[K", live->file);
    (void)fflush(live->file);
    live->drawn = false;
}

static void put(struct train_live *live, const struct train_moment *moment, bool stays)
{
    char line[TRAIN_LINE];
    train_live_line(moment, live->terminal ? width_of(live->file) : WIDTH, line);
    fprintf(live->file, "%s%s%s%s", live->terminal ? "\r" : "", line,
            live->terminal ? "\033[K" : "", stays ? "\n" : "");
    (void)fflush(live->file);
    live->drawn = !stays;
}

void train_live_begun(struct train_live *live, const struct train_request *request,
                      const struct train_report *report)
{
    char params[UNITS_TEXT];
    if (live->file == NULL)
        return;
    train_live_clear(live);
    uint32_t batch = request->options.batch;
    fprintf(live->file, "%s with %s parameters on %s: %llu sample%s, %u %s%s, batches of %u\n",
            request->settings.model, units_show_count((double)report->params, params),
            request->settings.data, (unsigned long long)report->train_samples,
            report->train_samples == 1 ? "" : "s", (unsigned)report->workers,
            request->settings.learners > 0 ? "learner" : "worker", report->workers == 1 ? "" : "s",
            (unsigned)(batch > 0 ? batch : report->batch));
    if (report->first > 0)
        fprintf(live->file, "goes on from iteration %llu in %s\n",
                (unsigned long long)report->first, request->options.checkpoint);
    live->epoch = floor(report->epochs);
    (void)fflush(live->file);
}

enum { SAID_MAX = 20 };

static void note_stopped(struct train_live *live, const struct train_event *event)
{
    if (live->said_stopped)
        return;
    live->said_stopped = true;
    train_live_clear(live);
    fprintf(live->file, "trident train: note: workers stop one after the other: %s\n", event->text);
    (void)fflush(live->file);
}

void train_live_event(struct train_live *live, const struct train_event *event)
{
    if (live->file != NULL && !train_event_is_failure(event)) {
        note_stopped(live, event);
        return;
    }
    if (live->file == NULL || live->said >= SAID_MAX || strcmp(live->last, event->text) == 0)
        return;
    (void)snprintf(live->last, sizeof live->last, "%s", event->text);
    train_live_clear(live);
    fprintf(live->file, "trident train: rank %u: %s%s\n", (unsigned)event->rank, event->text,
            ++live->said == SAID_MAX ? " (more of it: --json)" : "");
    (void)fflush(live->file);
}

void train_live_moment(struct train_live *live, const struct train_moment *moment)
{
    if (live->file == NULL)
        return;
    double whole = floor(moment->epoch + 1e-9), now = clock_seconds();
    bool ended = whole > live->epoch;
    if (ended)
        live->epoch = whole;
    if (moment->tested || (!live->terminal && ended)) {
        put(live, moment, true);
    } else if (live->terminal && (ended || now - live->drawn_at >= redraw_s)) {
        put(live, moment, false);
        live->drawn_at = now;
    }
}
