#include "cli/progress.h"
#include "base/machine.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/text.h"
#include "cli/signals.h"
#include "cli/terminal.h"

#define MAX_LINES      256
#define DRAW_SECONDS   0.1
#define PLAIN_SECONDS  5.0
#define EVENTS_PRINTED 10 /* a network that is bad all the time must not flood the terminal */
#define BAR_WIDTH      16
#define NARROW         50 /* columns: less is said per lane */

struct fm_display {
    bool quiet, moves, color;
    int nlines;           /* on the terminal now; the cursor stands at the end of the last */
    int width[MAX_LINES]; /* characters of each */
    struct fm_text lines; /* their text, each ended by '\0', to draw them again below a message */
    double drawn;         /* when */
    int64_t events;
    bool said_stopping;
    char summary[128];
};

const char *fm_display_time(double seconds, char buffer[32])
{
    int64_t s = seconds > 0 && seconds < 1e12 ? (int64_t)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(buffer, 32, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
    else
        snprintf(buffer, 32, "%d:%02d", (int)(s / 60), (int)(s % 60));
    return buffer;
}

static void emit(const struct fm_text *text)
{
    if (!text->failed && text->size) {
        fwrite(text->data, 1, text->size, stderr);
        fflush(stderr);
    }
}

/* Moves to the first drawn line. Lines that a window became too narrow for take several rows. */
static void move_up(struct fm_display *d, struct fm_text *out, int columns)
{
    int rows = 0;
    for (int i = 0; i < d->nlines; i++)
        rows += d->width[i] > columns ? (d->width[i] + columns - 1) / columns : 1;
    if (d->nlines) fm_text_add_string(out, "\r");
    if (rows > 1) fm_text_add(out, "\033[%dA", rows - 1);
    d->nlines = 0;
}

static void erase(struct fm_display *d, struct fm_text *out, int columns)
{
    bool drawn = d->nlines > 0;
    move_up(d, out, columns);
    if (drawn) fm_text_add_string(out, "\033[J");
}

/* Writes over what stood there, so that nothing flickers, and clears what is left below. */
static void draw(struct fm_display *d, struct fm_text *out, int columns)
{
    const char *line = d->lines.data, *end = line + d->lines.size;
    for (d->nlines = 0; line && line < end && d->nlines < MAX_LINES; line += strlen(line) + 1) {
        int width = (int)strlen(line);
        if (width > columns - 1) width = columns > 1 ? columns - 1 : 1;
        fm_text_add(out, "%s\r%.*s\033[K", d->nlines ? "\n" : "", width, line);
        d->width[d->nlines++] = width;
    }
    fm_text_add_string(out, "\033[J");
}

/* Large data take a while before the first run begins. */
static void begin(struct fm_display *d)
{
    struct fm_text out = {0};
    int columns, rows;
    fm_terminal_size(STDERR_FILENO, &columns, &rows);
    fm_text_add_string(&d->lines, "reading the data");
    fm_text_add_bytes(&d->lines, "\0", 1);
    if (!d->lines.failed) draw(d, &out, columns);
    emit(&out);
    fm_text_fini(&out);
}

struct fm_display *fm_display_new(const struct fm_arguments *arguments)
{
    struct fm_display *d = fm_calloc(1, sizeof *d);
    if (!d) return NULL;
    d->quiet = arguments->quiet;
    d->moves = fm_terminal_moves(STDERR_FILENO);
    d->color = fm_terminal_color(arguments->color, STDERR_FILENO);
    d->drawn = fm_monotonic();
    if (d->moves && !d->quiet) {
        fm_signals_watch_size();
        begin(d);
    }
    return d;
}

static void add_bar(struct fm_text *text, double share)
{
    int full = (int)(share * BAR_WIDTH + 0.5);
    if (full < 0) full = 0;
    if (full > BAR_WIDTH) full = BAR_WIDTH;
    fm_text_add_string(text, " [");
    for (int i = 0; i < BAR_WIDTH; i++) fm_text_add_bytes(text, i < full ? "#" : "-", 1);
    fm_text_add_string(text, "]");
}

/* How much of the run's epochs is behind it. */
static double share_of(const struct fm_lane_status *lane)
{
    double step = lane->steps > 0 ? (double)lane->step / (double)lane->steps : 0;
    double before = lane->epoch > 0 ? (double)(lane->epoch - 1) : 0;
    return lane->epochs > 0 ? (before + step) / (double)lane->epochs : 0;
}

static void add_lane(struct fm_text *text, int64_t i, const struct fm_lane_status *lane, int columns)
{
    if (!lane->busy) {
        fm_text_add(text, "%3" PRId64 "  idle", i + 1);
        return;
    }
    if (columns < NARROW) {
        fm_text_add(text, "%" PRId64 " t%" PRId64 " f%" PRId64 " %" PRId64 "/%" PRId64, i + 1, lane->trial,
                    lane->fold, lane->epoch, lane->epochs);
        if (isfinite(lane->loss) && lane->epoch > 1) fm_text_add(text, " %.3g", lane->loss);
        return;
    }
    fm_text_add(text, "%3" PRId64 "  trial %" PRId64, i + 1, lane->trial);
    if (lane->repeat > 0) fm_text_add(text, " repeat %" PRId64, lane->repeat);
    fm_text_add(text, " fold %" PRId64 "  epoch %" PRId64 "/%" PRId64, lane->fold, lane->epoch, lane->epochs);
    if (columns >= 64) add_bar(text, share_of(lane));
    if (isfinite(lane->loss) && lane->epoch > 1) fm_text_add(text, "  loss %.4g", lane->loss);
    if (isfinite(lane->watched) && lane->epoch > 1) fm_text_add(text, "  watched %.4g", lane->watched);
}

static void add_total(struct fm_text *text, const struct fm_status *s)
{
    char time[32];
    if (fm_signals_caught()) fm_text_add_string(text, "stopping (Ctrl-C again: at once)  ");
    fm_text_add(text, "%" PRId64 "/%" PRId64 " runs", s->done, s->runs);
    if (s->failed) fm_text_add(text, ", %" PRId64 " failed", s->failed);
    fm_text_add(text, "  %s", fm_display_time(s->elapsed, time));
    if (s->left >= 0) fm_text_add(text, ", %s left", fm_display_time(s->left, time));
}

static void end_line(struct fm_text *text)
{
    fm_text_add_bytes(text, "\0", 1);
}

static void compose(struct fm_display *d, const struct fm_status *s, int columns, int rows)
{
    int64_t shown = s->nlanes, room = rows > 3 ? rows - 2 : 1;
    if (shown > room) shown = room - 1;
    if (shown > MAX_LINES - 2) shown = MAX_LINES - 2;
    d->lines.size = 0;
    for (int64_t i = 0; i < shown; i++) {
        add_lane(&d->lines, i, &s->lanes[i], columns);
        end_line(&d->lines);
    }
    if (shown < s->nlanes && room > 1) {
        int64_t busy = 0;
        for (int64_t i = shown; i < s->nlanes; i++) busy += s->lanes[i].busy;
        fm_text_add(&d->lines, "     and %" PRId64 " lanes more, %" PRId64 " busy", s->nlanes - shown, busy);
        end_line(&d->lines);
    }
    add_total(&d->lines, s);
    end_line(&d->lines);
}

static void summarise(struct fm_display *d, const struct fm_status *s)
{
    int n =
        snprintf(d->summary, sizeof d->summary, "%" PRId64 " of %" PRId64 " runs are done", s->done, s->runs);
    if (s->failed && n > 0 && (size_t)n < sizeof d->summary)
        snprintf(d->summary + n, sizeof d->summary - (size_t)n, ", %" PRId64 " of them failed", s->failed);
}

static void plain(struct fm_display *d, const struct fm_status *s)
{
    char elapsed[32], left[32];
    if (fm_signals_caught() && !d->said_stopping) {
        d->said_stopping = true;
        fprintf(stderr, "foldmill: stopping at the next safe point; once more stops at once\n");
    }
    if (fm_monotonic() - d->drawn < PLAIN_SECONDS) return;
    d->drawn = fm_monotonic();
    fprintf(stderr, "foldmill: %s, %s elapsed%s%s\n", d->summary, fm_display_time(s->elapsed, elapsed),
            s->left >= 0 ? ", left about " : "", s->left >= 0 ? fm_display_time(s->left, left) : "");
}

void fm_display_status(void *context, const struct fm_status *s)
{
    struct fm_display *d = context;
    int columns, rows;
    if (!d) return;
    summarise(d, s);
    if (d->quiet) return;
    if (!d->moves) {
        plain(d, s);
        return;
    }
    double clock = fm_monotonic();
    /* A resized window is drawn anew at once; its size is asked for at every drawing. */
    if (d->nlines && !fm_signals_resized() && clock - d->drawn < DRAW_SECONDS) return;
    d->drawn = clock;
    fm_terminal_size(STDERR_FILENO, &columns, &rows);
    struct fm_text out = {0};
    move_up(d, &out, columns);
    compose(d, s, columns, rows);
    if (!d->lines.failed) draw(d, &out, columns);
    emit(&out);
    fm_text_fini(&out);
}

static bool is_wanted(struct fm_display *d, const struct fm_message *m)
{
    if (m->kind == FM_MESSAGE_NOTE) return true;
    if (!m->warning) return false;
    return ++d->events <= EVENTS_PRINTED;
}

void fm_display_message(void *context, const struct fm_message *m)
{
    struct fm_display *d = context;
    int columns, rows;
    char shown[4096];
    if (!d || d->quiet || !is_wanted(d, m)) return;
    struct fm_text out = {0};
    fm_terminal_size(STDERR_FILENO, &columns, &rows);
    erase(d, &out, columns);
    const char *level = m->kind != FM_MESSAGE_NOTE ? "" : m->warning ? "warning: " : "note: ";
    bool color = d->color && m->warning;
    fm_text_add(&out, "%s%s%s%s\n", color ? "\033[33m" : "", level,
                fm_show(m->text, strlen(m->text), shown, sizeof shown), color ? "\033[0m" : "");
    if (d->events == EVENTS_PRINTED && m->kind != FM_MESSAGE_NOTE)
        fm_text_add_string(&out, "further events are in the journal: foldmill show --trial N tells them\n");
    if (d->moves && d->lines.size && !d->lines.failed) draw(d, &out, columns);
    emit(&out);
    fm_text_fini(&out);
}

const char *fm_display_summary(const struct fm_display *d)
{
    return d ? d->summary : "";
}

void fm_display_free(struct fm_display *d)
{
    if (!d) return;
    struct fm_text out = {0};
    int columns, rows;
    fm_terminal_size(STDERR_FILENO, &columns, &rows);
    erase(d, &out, columns);
    emit(&out);
    fm_text_fini(&out);
    fm_text_fini(&d->lines);
    fm_free(d);
}
