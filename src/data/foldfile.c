#include "data/foldfile.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGEST_FILE ((int64_t)1 << 32)
#define MOST_COLUMNS 1024

/* ---- bytes ---- */

static int read_all(int fd, char *bytes, size_t size, const char *path, struct fm_error *err)
{
    size_t at = 0;
    while (at < size) {
        ssize_t got = read(fd, bytes + at, size - at);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return fm_fail_errno(err, "read", path);
        if (got == 0) return fm_fail(err, FM_EIO, "cannot read %s: it became shorter meanwhile", path);
        at += (size_t)got;
    }
    bytes[size] = '\0';
    if (memchr(bytes, '\0', size))
        return fm_fail(err, FM_EFILE, "%s holds a zero byte, so it is not a CSV file", path);
    return 0;
}

static int read_file(const char *path, char **bytes, size_t *size, struct fm_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        int code = errno == EACCES ? FM_EIO : FM_EFILE;
        return fm_fail(err, code, "cannot open the fold file %s: %s", path, strerror(errno));
    }
    struct stat info;
    int status = 0;
    if (fstat(fd, &info) != 0) {
        status = fm_fail_errno(err, "look at", path);
    } else if (!S_ISREG(info.st_mode)) {
        status = fm_fail(err, FM_EFILE, "the fold file %s is not a plain file", path);
    } else if (info.st_size > LARGEST_FILE) {
        status = fm_fail(err, FM_EFILE, "the fold file %s is larger than 4 GiB", path);
    } else {
        *size = (size_t)info.st_size;
        *bytes = fm_malloc(*size + 1, 1);
        status = *bytes ? read_all(fd, *bytes, *size, path, err) : fm_fail_memory(err);
    }
    close(fd);
    return status;
}

/* ---- fields ---- */

struct reader {
    const char *path;
    char *at;
    int64_t line;
    char delimiter;
    bool line_ended; /* the field just read was its line's last */
};

/* Reads one field and terminates it in place; a quoted one is unquoted where it lies. */
static int next_field(struct reader *r, char **field, struct fm_error *err)
{
    char *out = r->at, *in = r->at;
    *field = out;
    if (*in == '"') {
        int64_t line = r->line;
        for (in++; *in != '"' || in[1] == '"'; in++) {
            if (*in == '\0')
                return fm_fail_at(err, FM_EFILE, r->path, line, 0, "a quote is opened and never closed");
            if (*in == '\n') r->line++;
            if (*in == '"') in++;
            *out++ = *in;
        }
        in++;
    } else {
        while (*in != '\0' && *in != '\n' && *in != r->delimiter && !(*in == '\r' && in[1] == '\n')) {
            if (*in == '"')
                return fm_fail_at(err, FM_EFILE, r->path, r->line, 0,
                                  "a quote stands inside a field without quotes");
            in++;
        }
        out = in;
    }
    if (*in == '\r' && in[1] == '\n') in++;
    if (*in != '\0' && *in != '\n' && *in != r->delimiter)
        return fm_fail_at(err, FM_EFILE, r->path, r->line, 0,
                          "a delimiter or the line's end must follow a closing quote");
    r->line_ended = *in != r->delimiter;
    if (*in == '\n') r->line++;
    r->at = *in == '\0' ? in : in + 1;
    *out = '\0';
    return 0;
}

static bool is_named(const char *field, const char *name)
{
    size_t size = strlen(name);
    field += strspn(field, " ");
    return strncmp(field, name, size) == 0 && field[size + strspn(field + size, " ")] == '\0';
}

struct columns {
    int64_t key, fold, count;
};

static int read_header(struct fm_foldfile *file, struct reader *r, struct columns *c, struct fm_error *err)
{
    int64_t record = -1, example = -1;
    c->fold = -1;
    r->delimiter = r->at[strcspn(r->at, ",;\t\n")];
    if (r->delimiter == '\0' || r->delimiter == '\n') r->delimiter = ',';
    if (*r->at == '\0') return fm_fail_at(err, FM_EFILE, r->path, 1, 0, "the fold file is empty");
    do {
        char *field;
        int status = next_field(r, &field, err);
        if (status != 0) return status;
        if (c->count == MOST_COLUMNS) return fm_fail_at(err, FM_EFILE, r->path, 1, 0, "too many columns");
        if (is_named(field, "record")) record = c->count;
        if (is_named(field, "example")) example = c->count;
        if (is_named(field, "fold")) c->fold = c->count;
        c->count++;
    } while (!r->line_ended);
    file->by_example = example >= 0;
    c->key = example >= 0 ? example : record;
    if (c->key < 0 || c->fold < 0)
        return fm_fail_at(err, FM_EFILE, r->path, 1, 0,
                          "the first line must name the columns: 'record,fold' or 'example,fold'");
    return 0;
}

static int read_row(struct fm_foldfile *file, struct reader *r, const struct columns *c, struct fm_error *err)
{
    struct fm_foldfile_row row = {.line = r->line};
    int64_t count = 0;
    bool empty = true;
    do {
        char *field;
        int status = next_field(r, &field, err);
        if (status != 0) return status;
        if (*field != '\0') empty = false;
        if (count == c->key) row.key = field;
        if (count == c->fold) row.fold = field;
        count++;
    } while (!r->line_ended);
    if (empty && count == 1) return 0;
    if (count != c->count)
        return fm_fail_at(err, FM_EFILE, r->path, row.line, 0,
                          "this line has %lld fields, but the header has %lld", (long long)count,
                          (long long)c->count);
    if (*row.key == '\0')
        return fm_fail_at(err, FM_EFILE, r->path, row.line, 0, "the %s is empty",
                          file->by_example ? "example" : "record");
    if (*row.fold == '\0')
        return fm_fail_at(err, FM_EFILE, r->path, row.line, 0,
                          "the fold is empty; write -1 for always training");
    if (fm_grow(&file->rows, &file->capacity, file->nrows + 1, sizeof row) != 0) return fm_fail_memory(err);
    file->rows[file->nrows++] = row;
    return 0;
}

/* ---- fold names ---- */

struct value {
    const char *text;
    double number;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(((const struct value *)a)->text, ((const struct value *)b)->text);
}

static int by_value(const void *a, const void *b)
{
    double x = ((const struct value *)a)->number, y = ((const struct value *)b)->number;
    return x < y ? -1 : x > y;
}

static int name_folds(struct fm_foldfile *file, struct fm_error *err)
{
    struct value *values = fm_malloc(file->nrows, sizeof *values);
    if (!values) return fm_fail_memory(err);
    bool numbers = true;
    for (size_t i = 0; i < file->nrows; i++) {
        values[i] = (struct value){.text = file->rows[i].fold};
        if (!fm_parse_number(values[i].text, strlen(values[i].text), &values[i].number)) numbers = false;
    }
    int (*compare)(const void *, const void *) = numbers ? by_value : by_text;
    qsort(values, file->nrows, sizeof *values, compare);
    const struct value minus_one = {.text = "-1", .number = -1};
    size_t kept = 0;
    for (size_t i = 0; i < file->nrows; i++) {
        if (compare(&values[i], &minus_one) == 0) continue;
        if (kept == 0 || compare(&values[i], &values[kept - 1]) != 0) values[kept++] = values[i];
    }
    file->nfolds = (int64_t)kept;
    file->names = fm_malloc(kept, sizeof *file->names);
    for (size_t i = 0; file->names && i < kept; i++) file->names[i] = values[i].text;
    for (size_t i = 0; i < file->nrows; i++) {
        struct value own = {.text = file->rows[i].fold};
        fm_parse_number(own.text, strlen(own.text), &own.number);
        const struct value *found = kept > 0 ? bsearch(&own, values, kept, sizeof own, compare) : NULL;
        file->rows[i].part = found ? (int32_t)(found - values) : -1;
    }
    fm_free(values);
    return file->names ? 0 : fm_fail_memory(err);
}

int fm_foldfile_read(struct fm_foldfile *file, const char *path, struct fm_error *err)
{
    size_t size = 0;
    struct columns columns = {0};
    *file = (struct fm_foldfile){0};
    int status = read_file(path, &file->bytes, &size, err);
    struct reader r = {.path = path, .at = file->bytes, .line = 1};
    if (status == 0 && size >= 3 && memcmp(r.at, "\xEF\xBB\xBF", 3) == 0) r.at += 3;
    if (status == 0) status = read_header(file, &r, &columns, err);
    while (status == 0 && *r.at != '\0') status = read_row(file, &r, &columns, err);
    if (status == 0 && file->nrows == 0)
        status = fm_fail_at(err, FM_EFILE, path, 1, 0, "the fold file has a header and no rows");
    if (status == 0 && file->nrows > INT32_MAX)
        status = fm_fail_at(err, FM_EFILE, path, 1, 0, "the fold file has too many rows");
    if (status == 0) status = name_folds(file, err);
    if (status != 0) fm_foldfile_fini(file);
    return status;
}

void fm_foldfile_fini(struct fm_foldfile *file)
{
    fm_free(file->bytes);
    fm_free(file->rows);
    fm_free(file->names);
    *file = (struct fm_foldfile){0};
}
