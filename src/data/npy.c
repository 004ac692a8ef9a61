#include "data/npy.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK_BYTES = 1 << 16, MOST_HEADER = 10000 };

static int bad(const struct fm_npy *a, struct fm_error *err, const char *text)
{
    return fm_fail_at(err, FM_EFILE, a->name, 0, 0, "%s", text);
}

/* ---- bytes ---- */

/* Exactly n bytes, or an error. */
static int read_bytes(struct fm_npy *a, void *bytes, int64_t n, struct fm_error *err)
{
    int64_t got = 0;
    if (a->fd >= 0) {
        got = fm_file_read(a->name, a->fd, bytes, (size_t)n, err);
        if (got < 0) return FM_EIO;
    } else {
        while (got < n) {
            zip_int64_t step = zip_fread(a->member, (char *)bytes + got, (zip_uint64_t)(n - got));
            if (step < 0) {
                return fm_fail_at(err, FM_EFILE, a->name, 0, 0, "is damaged: %s",
                                  zip_error_strerror(zip_file_get_error(a->member)));
            }
            if (step == 0) break;
            got += step;
        }
    }
    return got == n ? 0 : bad(a, err, "is cut off: it ends before its data do");
}

/* ---- the header: a Python dictionary of three known keys ---- */

struct header {
    const char *at, *end;
    char descr[64];
    bool structured, has_descr, has_order, has_shape;
};

static void skip_blanks(struct header *h)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t' || *h->at == '\r')) h->at++;
}

static bool take(struct header *h, char c)
{
    skip_blanks(h);
    if (h->at == h->end || *h->at != c) return false;
    h->at++;
    return true;
}

static bool take_word(struct header *h, const char *word)
{
    size_t n = strlen(word);
    skip_blanks(h);
    if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n) != 0) return false;
    h->at += n;
    return true;
}

/* A quoted text without escapes that fits the buffer. */
static bool take_text(struct header *h, char *text, size_t size)
{
    skip_blanks(h);
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"')) return false;
    char quote = *h->at++;
    size_t n = 0;
    while (h->at < h->end && *h->at != quote) {
        if (n + 1 == size || *h->at == '\\') return false;
        text[n++] = *h->at++;
    }
    text[n] = '\0';
    return h->at++ < h->end;
}

static bool take_integer(struct header *h, int64_t *value)
{
    skip_blanks(h);
    const char *start = h->at;
    *value = 0;
    for (; h->at < h->end && *h->at >= '0' && *h->at <= '9'; h->at++) {
        if (__builtin_mul_overflow(*value, 10, value) || __builtin_add_overflow(*value, *h->at - '0', value))
            return false;
    }
    if (h->at == start) return false;
    if (h->at < h->end && *h->at == 'L') h->at++; /* written by Python 2 */
    return true;
}

static bool take_shape(struct header *h, struct fm_npy *a)
{
    if (!take(h, '(')) return false;
    while (!take(h, ')')) {
        if (a->ndim == FM_NPY_DIMS || !take_integer(h, &a->shape[a->ndim])) return false;
        a->ndim++;
        if (!take(h, ',')) return take(h, ')');
    }
    return true;
}

static bool take_entry(struct header *h, struct fm_npy *a)
{
    char key[24];
    if (!take_text(h, key, sizeof key) || !take(h, ':')) return false;
    if (strcmp(key, "descr") == 0 && !h->has_descr) {
        h->has_descr = true;
        skip_blanks(h);
        h->structured = h->at < h->end && *h->at == '[';
        return !h->structured && take_text(h, h->descr, sizeof h->descr);
    }
    if (strcmp(key, "fortran_order") == 0 && !h->has_order) {
        h->has_order = true;
        a->fortran = take_word(h, "True");
        return a->fortran || take_word(h, "False");
    }
    if (strcmp(key, "shape") == 0 && !h->has_shape) {
        h->has_shape = true;
        return take_shape(h, a);
    }
    return false;
}

static bool take_dictionary(struct header *h, struct fm_npy *a)
{
    if (!take(h, '{')) return false;
    while (!take(h, '}')) {
        if (!take_entry(h, a)) return false;
        if (!take(h, ',')) {
            if (!take(h, '}')) return false;
            break;
        }
    }
    skip_blanks(h);
    return h->at == h->end && h->has_descr && h->has_order && h->has_shape;
}

static int refuse_type(const struct fm_npy *a, const char *descr, struct fm_error *err)
{
    const char *hint;
    switch (descr[0] == '<' || descr[0] == '>' || descr[0] == '=' || descr[0] == '|' ? descr[1] : descr[0]) {
    case 'O':
        hint = "holds Python objects, which are pickles and not read (often a list of arrays of unequal "
               "length); save one "
               "array of numbers: np.save(file, np.asarray(x, dtype=np.float32))";
        break;
    case 'U':
    case 'S':
    case 'a':
        hint = "holds text; save class numbers instead: names, y = np.unique(y, return_inverse=True)";
        break;
    case 'c': hint = "holds complex numbers; save real and imaginary parts as two channels"; break;
    case 'M':
    case 'm': hint = "holds dates or time spans; save them as numbers: x.astype('int64')"; break;
    case 'V': hint = "holds raw bytes; save an array of numbers"; break;
    default: hint = "is of a type that is not read; save it as float32: x.astype('float32')"; break;
    }
    char shown[64];
    return fm_fail_at(err, FM_EFILE, a->name, 0, 0, "%s (its dtype is %s)", hint,
                      fm_show(descr, strlen(descr), shown, sizeof shown));
}

static int read_type(struct fm_npy *a, const char *descr, struct fm_error *err)
{
    static const char *const known[] = {"b1", "i1", "i2", "i4", "i8", "u1",
                                        "u2", "u4", "u8", "f2", "f4", "f8"};
    const char *type = descr;
    bool big = *type == '>';
    if (*type == '<' || *type == '>' || *type == '=' || *type == '|') type++;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(type, known[i]) != 0) continue;
        a->kind = type[0];
        a->item_size = type[1] - '0';
        a->swap = a->item_size > 1 && big != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
        return 0;
    }
    return refuse_type(a, descr, err);
}

/* Elements, and that their bytes are what is left of the file. */
static int check_size(struct fm_npy *a, int64_t left, struct fm_error *err)
{
    int64_t bytes = 0;
    a->count = 1;
    for (int i = 0; i < a->ndim; i++) {
        if (!fm_multiply(a->count, a->shape[i], &a->count))
            return bad(a, err, "claims a shape that cannot be");
    }
    if (!fm_multiply(a->count, a->item_size, &bytes)) return bad(a, err, "claims a shape that cannot be");
    if (bytes != left) {
        return fm_fail_at(err, FM_EFILE, a->name, 0, 0,
                          "%s: by its header %" PRId64 " bytes of data follow, but there are %" PRId64,
                          bytes > left ? "is cut off" : "has a header that does not fit", bytes, left);
    }
    if (a->count == 0) return bad(a, err, "is empty: one of its dimensions is 0");
    a->left = a->count;
    return 0;
}

static int parse_header(struct fm_npy *a, const char *text, size_t size, int64_t left, struct fm_error *err)
{
    struct header h = {.at = text, .end = text + size};
    a->ndim = 0;
    if (!take_dictionary(&h, a)) {
        if (h.structured) {
            return bad(a, err,
                       "has a structured type; save its fields as one array: np.stack([x[n] for n in "
                       "x.dtype.names], "
                       "-1)");
        }
        return fm_fail_at(
            err, FM_EFILE, a->name, 0, 0,
            "has a header that is not NumPy's: see byte %" PRId64
            " (a dictionary of descr, fortran_order and shape, whose sizes are not negative, is expected)",
            a->data_offset - (int64_t)size + (h.at - text));
    }
    int rc = read_type(a, h.descr, err);
    return rc == 0 ? check_size(a, left, err) : rc;
}

int fm_npy_begin(struct fm_npy *a, int64_t size, struct fm_error *err)
{
    unsigned char start[12];
    static const char not_npy[] = "is no .npy array: it does not begin with NumPy's mark";
    if (size < 10) return bad(a, err, not_npy);
    int rc = read_bytes(a, start, 10, err);
    if (rc != 0) return rc;
    if (memcmp(start, "\x93NUMPY", 6) != 0) return bad(a, err, not_npy);
    if (start[6] < 1 || start[6] > 3 || start[7] != 0) {
        return fm_fail_at(err, FM_EFILE, a->name, 0, 0, "is of .npy version %d.%d; 1.0 to 3.0 are read",
                          start[6], start[7]);
    }
    int64_t length = start[8] | start[9] << 8, before = 10;
    if (start[6] > 1) {
        before = 12;
        if (size < before) return bad(a, err, not_npy);
        rc = read_bytes(a, start + 10, 2, err);
        if (rc != 0) return rc;
        length |= (int64_t)start[10] << 16 | (int64_t)start[11] << 24;
    }
    if (length > MOST_HEADER) {
        return fm_fail_at(err, FM_EFILE, a->name, 0, 0,
                          "claims a header of %" PRId64 " characters; NumPy's have at most %d", length,
                          MOST_HEADER);
    }
    if (length > size - before) return bad(a, err, "is cut off inside its header");
    char *text = fm_malloc((size_t)length, 1);
    if (!text) return fm_fail_memory(err);
    a->data_offset = before + length;
    rc = read_bytes(a, text, length, err);
    if (rc == 0) rc = parse_header(a, text, (size_t)length, size - a->data_offset, err);
    fm_free(text);
    if (rc != 0) return rc;
    a->chunk = fm_malloc(CHUNK_BYTES, 1);
    return a->chunk ? 0 : fm_fail_memory(err);
}

/* ---- elements ---- */

static double from_half(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double value = exponent == 31 ? (fraction ? NAN : INFINITY)
                   : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                  : ldexp(fraction, -24);
    return h & 0x8000 ? -value : value;
}

static uint64_t load_bits(const unsigned char *p, int size, bool swap)
{
    uint64_t bits = 0;
    for (int i = 0; i < size; i++) bits |= (uint64_t)p[swap ? size - 1 - i : i] << 8 * i;
    return bits;
}

static double element(const struct fm_npy *a, const unsigned char *p)
{
    /* The file's little-endian order is that of load_bits, whatever this machine's is. */
    bool big = a->swap != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    uint64_t bits = load_bits(p, a->item_size, big);
    int shift = 64 - 8 * a->item_size;
    switch (a->kind) {
    case 'b': return bits != 0;
    case 'u': return (double)bits;
    case 'i': return (double)((int64_t)(bits << shift) >> shift);
    default: break;
    }
    if (a->item_size == 2) return from_half((uint16_t)bits);
    if (a->item_size == 4) {
        float value;
        uint32_t word = (uint32_t)bits;
        memcpy(&value, &word, sizeof value);
        return value;
    }
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

int fm_npy_read(struct fm_npy *a, double *values, int64_t n, struct fm_error *err)
{
    int64_t most = CHUNK_BYTES / a->item_size;
    bool plain = !a->swap && a->kind == 'f' && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    while (n > 0) {
        int64_t step = n < most ? n : most;
        int rc = read_bytes(a, a->chunk, step * a->item_size, err);
        if (rc != 0) return rc;
        for (int64_t i = 0; i < step; i++) {
            if (plain && a->item_size == 4) {
                float value;
                memcpy(&value, a->chunk + 4 * i, 4);
                values[i] = value;
            } else if (plain && a->item_size == 8) {
                memcpy(&values[i], a->chunk + 8 * i, 8);
            } else {
                values[i] = element(a, a->chunk + i * a->item_size);
            }
        }
        values += step;
        n -= step;
        a->left -= step;
    }
    return 0;
}

/* ---- open and close ---- */

int fm_npy_open(struct fm_npy *a, const char *path, struct fm_error *err)
{
    struct fm_file_stamp stamp = {0};
    *a = (struct fm_npy){.fd = -1};
    a->name = fm_strdup(path);
    if (!a->name) return fm_fail_memory(err);
    int rc = fm_file_open(path, &a->fd, &stamp, err);
    if (rc == 0) rc = fm_npy_begin(a, stamp.size, err);
    if (rc != 0) fm_npy_close(a);
    return rc;
}

int fm_npy_rewind(struct fm_npy *a, struct fm_error *err)
{
    a->left = a->count;
    if (a->fd >= 0) {
        if (lseek(a->fd, a->data_offset, SEEK_SET) < 0) return fm_fail_errno(err, "read", a->name);
        return 0;
    }
    int rc = fm_npz_start(a, err);
    for (int64_t skip = a->data_offset; rc == 0 && skip > 0;) {
        int64_t step = skip < CHUNK_BYTES ? skip : CHUNK_BYTES;
        rc = read_bytes(a, a->chunk, step, err);
        skip -= step;
    }
    return rc;
}

int fm_npy_finish(struct fm_npy *a, struct fm_error *err)
{
    char more;
    if (!a->member) return 0;
    zip_int64_t n = zip_fread(a->member, &more, 1);
    if (n > 0) return bad(a, err, "holds more bytes than the archive's directory says");
    if (n < 0) {
        return fm_fail_at(err, FM_EFILE, a->name, 0, 0, "is damaged: %s",
                          zip_error_strerror(zip_file_get_error(a->member)));
    }
    int code = zip_fclose(a->member);
    a->member = NULL;
    return code == 0 ? 0 : bad(a, err, "is damaged: its checksum is wrong");
}

void fm_npy_close(struct fm_npy *a)
{
    if (a->member) zip_fclose(a->member);
    if (a->fd >= 0) close(a->fd);
    fm_free(a->chunk);
    fm_free(a->name);
    *a = (struct fm_npy){.fd = -1};
}
