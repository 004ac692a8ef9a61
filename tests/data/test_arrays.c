/* .npy and .npz files: right ones of every kind, and those that lie. */
#include "support/loading.h"
#include "support/support.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

static struct ts_loading l;

static void set_up(void)
{
    cr_assert(ts_loading_init(&l));
}

static void tear_down(void)
{
    ts_loading_fini(&l);
}

TestSuite(arrays, .init = set_up, .fini = tear_down);

static void loads_as(const char *data, const char *loss)
{
    char text[1024];
    cr_assert_eq(ts_load(&l, data, loss), 0, "%s", ts_load_error(&l, text, sizeof text));
}

static void loads(const char *data)
{
    loads_as(data, "sparse_categorical_crossentropy");
}

static void refuses(const char *data, const char *a, const char *b)
{
    char text[2048];
    int rc = ts_load(&l, data, "sparse_categorical_crossentropy");
    ts_load_error(&l, text, sizeof text);
    cr_assert_eq(rc, FM_EFILE, "code %d: %s", rc, text);
    cr_assert(strstr(text, a), "'%s' is not in: %s", a, text);
    cr_assert(!b || strstr(text, b), "'%s' is not in: %s", b, text);
}

/* The bytes of a .npy with that header text. */
static size_t npy_bytes(char *out, int version, const char *header, const void *data, size_t size)
{
    size_t n = strlen(header), at = version == 1 ? 10 : 12;
    memcpy(out, "\x93NUMPY", 6);
    out[6] = (char)version;
    out[7] = 0;
    for (size_t i = 8; i < at; i++) out[i] = (char)(n >> 8 * (i - 8));
    memcpy(out + at, header, n);
    if (size) memcpy(out + at + n, data, size);
    return at + n + size;
}

static void npy(const char *name, const char *descr, const char *order, const char *shape, const void *data,
                size_t size)
{
    char header[256], out[4096];
    snprintf(header, sizeof header, "{'descr': '%s', 'fortran_order': %s, 'shape': %s, }%*s\n", descr, order,
             shape, 20, "");
    cr_assert(ts_loading_file(&l, name, out, npy_bytes(out, 1, header, data, size)));
}

#define XY "source: npy, x: x.npy, y: y.npy"

static const float x6[6] = {0.5f, 1.5f, -2, 4, 0.25f, 1.75f};
static const int32_t y3[3] = {0, 1, 0};

/* x [3,2] and y [3] that are right. */
static void plain_files(void)
{
    npy("x.npy", "<f4", "False", "(3, 2)", x6, sizeof x6);
    npy("y.npy", "<i4", "False", "(3,)", y3, sizeof y3);
}

Test(arrays, fortran_order_and_labels_of_one_column)
{
    if (!ts_loading_shared(&l, "cases", "A04_x.npy") || !ts_loading_shared(&l, "cases", "A04_y.npy"))
        cr_skip("../shared is absent");
    loads("source: npy, x: A04_x.npy, y: A04_y.npy");
    cr_assert_eq(l.data.nrecords, 4);
    cr_assert_eq(l.data.channels, 2);
    cr_assert_eq(fm_dataset_record_length(&l.data, 0), 5);
    cr_assert_eq(ts_load_value(&l, 2 * 5 + 3, 1), 231);
    double sums[4] = {0}, means[2] = {0};
    for (int64_t i = 0; i < 20; i++) {
        for (int c = 0; c < 2; c++) {
            sums[i / 5] += ts_load_value(&l, i, c);
            means[c] += ts_load_value(&l, i, c) / 20;
        }
    }
    static const double right[] = {205, 1205, 2205, 3205};
    cr_assert_arr_eq(sums, right, sizeof right);
    cr_assert_float_eq(means[0], 170, 1e-9);
    cr_assert_float_eq(means[1], 171, 1e-9);
    for (int i = 0; i < 4; i++) cr_assert_eq(fm_packed_get(&l.data.classes, i), (uint32_t)(i + 1) % 2);
    cr_assert(l.data.target_per_record);
}

Test(arrays, labels_without_an_output_are_named)
{
    char text[512];
    if (!ts_loading_shared(&l, "cases", "A11_x.npy") || !ts_loading_shared(&l, "cases", "A11_y.npy"))
        cr_skip("../shared is absent");
    loads("source: npy, x: A11_x.npy, y: A11_y.npy");
    cr_assert_eq(fm_dataset_check_outputs(&l.data, 3, &l.err), FM_EFILE);
    ts_load_error(&l, text, sizeof text);
    static const char *const parts[] = {"A11_y.npy", "index 3 value 3", "index 5 value -1", "0..2"};
    for (size_t i = 0; i < 4; i++) cr_assert(strstr(text, parts[i]), "%s is not in: %s", parts[i], text);
    fm_error_clear(&l.err);
    cr_assert_eq(fm_dataset_check_outputs(&l.data, 4, &l.err), FM_EFILE);
    ts_load_error(&l, text, sizeof text);
    cr_assert_null(strstr(text, "index 3"), "%s", text);
    plain_files();
    loads(XY);
    cr_assert_eq(fm_dataset_check_outputs(&l.data, 2, &l.err), 0);
    cr_assert_eq(fm_dataset_check_outputs(&l.data, 1, &l.err), 0);
    cr_assert_eq(fm_dataset_check_outputs(&l.data, 3, &l.err), 0);
}

Test(arrays, all_numeric_types)
{
    static const unsigned char be2[] = {0, 1, 0xff, 0xfe}, le2[] = {1, 0, 0xfe, 0xff}, i1[] = {1, 0xfe};
    static const unsigned char half[] = {0, 0x3c, 0, 0xc0};
    static const unsigned char be4[] = {0x3f, 0x80, 0, 0, 0xc0, 0, 0, 0}, boolean[] = {0, 3};
    static const double f8[] = {1, -2};
    static const int64_t i8[] = {1, -2};
    static const uint64_t u8[] = {1, 1ull << 63};
    static const struct {
        const char *descr;
        const void *data;
        size_t size;
        double first, second;
    } types[] = {
        {">i2", be2, 4, 1, -2},    {"<i2", le2, 4, 1, -2},
        {"|i1", i1, 2, 1, -2},     {"|u1", i1, 2, 1, 254},
        {"<f2", half, 4, 1, -2},   {">f4", be4, 8, 1, -2},
        {"|b1", boolean, 2, 0, 1}, {"<f8", f8, 16, 1, -2},
        {"<i8", i8, 16, 1, -2},    {"<u8", u8, 16, 1, 9223372036854775808.0},
        {">u2", be2, 4, 1, 65534},
    };
    static const unsigned char y[] = {0, 1};
    npy("y.npy", "|u1", "False", "(2,)", y, 2);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        npy("x.npy", types[i].descr, "False", "(2, 1)", types[i].data, types[i].size);
        loads(XY);
        cr_assert_eq(ts_load_value(&l, 0, 0), types[i].first, "%s", types[i].descr);
        cr_assert_eq(ts_load_value(&l, 1, 0), types[i].second, "%s", types[i].descr);
    }
}

Test(arrays, types_that_are_refused_say_what_to_do)
{
    static const char *const types[][2] = {
        {"|O", "pickles"},    {"<U3", "np.unique"}, {"|S2", "np.unique"}, {"<c8", "two channels"},
        {"<M8[ns]", "int64"}, {"|V4", "raw bytes"}, {"<f16", "float32"},  {"<i3", "float32"}};
    plain_files();
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        npy("x.npy", types[i][0], "False", "(3, 2)", x6, sizeof x6);
        refuses(XY, types[i][1], "x.npy");
    }
    char out[512];
    size_t n = npy_bytes(out, 1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (3,)}", x6, 12);
    cr_assert(ts_loading_file(&l, "x.npy", out, n));
    refuses(XY, "structured", "np.stack");
}

Test(arrays, headers)
{
    static const char *const good[] = {
        "{'shape': (3L, 2L), 'fortran_order': False, 'descr': '<f4'}",
        "{\"descr\": \"<f4\", \"fortran_order\":False,\"shape\":(3,2,),}   \n",
        " { 'descr' : '=f4' , 'fortran_order' : False , 'shape' : ( 3 , 2 ) } ",
    };
    static const char *const bad[] = {
        "",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, -2)}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), 'shape': (3, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)} x",
        "{'descr': '<f4', 'fortran_order': False, 'shape': 6}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 1)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': ()}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,3,2)}",
        "{'descr': '<f4\\'', 'fortran_order': False, 'shape': (3, 2)}",
    };
    char out[16384], header[12000];
    plain_files();
    for (int version = 1; version <= 3; version++) {
        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
            cr_assert(ts_loading_file(&l, "x.npy", out, npy_bytes(out, version, good[i], x6, sizeof x6)));
            loads(XY);
            cr_assert_eq(ts_load_value(&l, 3, 0), 4);
        }
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_assert(ts_loading_file(&l, "x.npy", out, npy_bytes(out, 1, bad[i], x6, sizeof x6)));
        refuses(XY, "x.npy", NULL);
    }
    snprintf(header, sizeof header, "%s%*s", good[0], 11000, "");
    cr_assert(ts_loading_file(&l, "x.npy", out, npy_bytes(out, 1, header, x6, sizeof x6)));
    refuses(XY, "10000", NULL);
}

Test(arrays, every_cut_and_every_wrong_byte_is_survived)
{
    char out[512], path[256];
    size_t n = npy_bytes(out, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)}", x6, sizeof x6);
    plain_files();
    ts_join(path, sizeof path, l.folder, "x.npy");
    for (size_t cut = 0; cut < n; cut++) {
        cr_assert(ts_write_file(path, out, cut));
        refuses(XY, "x.npy", NULL);
    }
    for (size_t i = 0; i < n - sizeof x6; i++) {
        char was = out[i];
        out[i] = (char)(was ^ 0x20);
        cr_assert(ts_write_file(path, out, n));
        ts_load(&l, XY, "sparse_categorical_crossentropy");
        out[i] = was;
    }
    out[n++] = 0;
    cr_assert(ts_write_file(path, out, n));
    refuses(XY, "does not fit", NULL);
}

Test(arrays, values_must_be_numbers_a_float_can_hold)
{
    double x[6] = {1, 2, 3, 4, 5, 6};
    plain_files();
    x[3] = NAN;
    npy("x.npy", "<f8", "False", "(3, 2)", x, sizeof x);
    refuses(XY, "x.npy", "index [1, 1]");
    x[3] = 1e39;
    npy("x.npy", "<f8", "False", "(3, 2)", x, sizeof x);
    refuses(XY, "index [1, 1]", "single precision");
    x[3] = -INFINITY;
    npy("x.npy", "<f8", "True", "(3, 2)", x, sizeof x);
    refuses(XY, "index [0, 1]", NULL);
}

Test(arrays, targets)
{
    static const double half[] = {0, 1.5, 1}, wide[] = {0.5, 0.5, 1, 0, 0, 1},
                        not_one[] = {0.5, 0.4, 1, 0, 0, 1};
    static const double whole[] = {1, 0, 2};
    static const unsigned char same[] = {1, 1, 1};
    plain_files();
    npy("y.npy", "<f8", "False", "(3,)", half, sizeof half);
    refuses(XY, "y.npy", "index 1 is 1.5");
    loads_as(XY, "mse");
    cr_assert_eq(l.data.target_values[1], 1.5f);
    cr_assert_eq(l.data.nclasses, 0);
    npy("y.npy", "<f8", "False", "(3, 1)", whole, sizeof whole);
    loads(XY);
    cr_assert_eq(l.data.nclasses, 3);
    cr_assert_eq(fm_packed_get(&l.data.classes, 2), 2);
    npy("y.npy", "<f8", "False", "(3, 2)", wide, sizeof wide);
    refuses(XY, "y.npy", "categorical_crossentropy");
    loads_as(XY, "categorical_crossentropy");
    cr_assert(l.data.distribution && l.data.target_width == 2 && l.data.nclasses == 0);
    cr_assert_eq(l.data.target_values[5], 1);
    cr_assert_eq(fm_dataset_check_outputs(&l.data, 3, &l.err), FM_EFILE);
    npy("y.npy", "<f8", "False", "(3, 2)", not_one, sizeof not_one);
    cr_assert_eq(ts_load(&l, XY, "categorical_crossentropy"), FM_EFILE);
    npy("y.npy", "|u1", "False", "(3,)", same, sizeof same);
    refuses(XY, "one class", "'1'");
    npy("y.npy", "<i4", "False", "(2,)", y3, 8);
    refuses(XY, "y has the shape [2]", "[3, 2]");
}

#define WINDOW ", window: {length: 2, label: last}"

Test(arrays, series)
{
    static const unsigned char y[] = {0, 1, 0, 0, 1, 1}, mask[] = {1, 1, 0, 1, 0, 1};
    static const int64_t group[] = {7, 7, 10, 10, 7, 7};
    static const float weight[] = {1, 2, 3, 4, 5, 6};
    npy("x.npy", "<f4", "False", "(6,)", x6, sizeof x6);
    npy("y.npy", "|u1", "False", "(6, 1)", y, sizeof y);
    npy("m.npy", "|b1", "False", "(6,)", mask, sizeof mask);
    npy("g.npy", "<i8", "False", "(6,)", group, sizeof group);
    npy("w.npy", "<f4", "False", "(6,)", weight, sizeof weight);
    loads(XY WINDOW ", mask: m.npy, weight: w.npy");
    cr_assert_eq(l.data.nrecords, 1);
    cr_assert_eq(l.data.positions, 6);
    cr_assert_eq(l.data.mask[0], 0x2b);
    cr_assert_eq(l.data.weights[5], 6);
    cr_assert(!l.data.target_per_record);
    loads(XY WINDOW ", group: g.npy");
    static const int64_t starts[] = {0, 2, 4, 6};
    cr_assert_eq(l.data.nrecords, 3);
    cr_assert_arr_eq(l.data.starts, starts, sizeof starts);
    cr_assert_str_eq(l.data.group_names[0], "10");
    cr_assert_eq(l.data.record_group[0], 1);
    cr_assert_eq(l.data.record_group[1], 0);
    l.longest = 2;
    loads(XY ", window: {length: 2, label: last, edge: wrap}, group: g.npy, weight: w.npy");
    static const float wrapped[] = {1, 2, 1, 3, 4, 3, 5, 6, 5};
    cr_assert_eq(l.data.positions, 9);
    cr_assert_arr_eq(l.data.weights, wrapped, sizeof wrapped);
    for (int i = 0; i < 9; i++) {
        cr_assert_eq(ts_load_value(&l, i, 0), x6[(int)wrapped[i] - 1]);
        cr_assert_eq(fm_packed_get(&l.data.classes, i), y[(int)wrapped[i] - 1]);
    }
}

Test(arrays, records_of_real_lengths)
{
    static const unsigned char y[] = {0, 1, 9, 1, 0, 1}, real[] = {1, 1, 0, 0, 1, 1},
                               hole[] = {1, 0, 1, 1, 1, 1};
    static const int32_t lengths[] = {2, 3}, wrong[] = {2, 4}, fold[] = {3, -1};
    npy("x.npy", "<f4", "True", "(2, 3, 1)", x6, sizeof x6); /* rows .5 -2 .25 and 1.5 4 1.75 */
    npy("y.npy", "|u1", "False", "(2, 3)", y, sizeof y);
    npy("n.npy", "<i4", "False", "(2,)", lengths, sizeof lengths);
    npy("m.npy", "|u1", "False", "(2, 3)", real, sizeof real);
    loads(XY WINDOW ", lengths: n.npy");
    cr_assert_eq(l.data.positions, 5);
    cr_assert_eq(l.data.nclasses, 2, "the 9 stands on no real position");
    static const double values[] = {0.5, -2, 1.5, 4, 1.75};
    for (int i = 0; i < 5; i++) cr_assert_eq(ts_load_value(&l, i, 0), values[i]);
    loads(XY WINDOW ", mask: m.npy");
    static const double last_two[] = {0.5, -2, 4, 1.75};
    cr_assert_eq(l.data.positions, 4);
    for (int i = 0; i < 4; i++) cr_assert_eq(ts_load_value(&l, i, 0), last_two[i]);
    cr_assert_eq(fm_packed_get(&l.data.classes, 2), 0);
    cr_assert_eq(fm_packed_get(&l.data.classes, 3), 1);
    npy("n.npy", "<i4", "False", "(2,)", wrong, sizeof wrong);
    refuses(XY WINDOW ", lengths: n.npy", "n.npy", "index 1 is 4");
    npy("m.npy", "|u1", "False", "(2, 3)", hole, sizeof hole);
    refuses(XY WINDOW ", mask: m.npy", "index [0, 2]", "hole");
    npy("y.npy", "<i4", "False", "(2,)", y3, 8);
    npy("f.npy", "<i4", "False", "(2,)", fold, sizeof fold);
    cr_assert_eq(
        ts_load_cv(&l, XY WINDOW ", fold: f.npy", "sparse_categorical_crossentropy", "split: predefined"), 0);
    cr_assert(l.data.target_per_record && l.data.fold_per_record);
    cr_assert_eq(l.data.fold[0], 0);
    cr_assert_eq(l.data.fold[1], -1);
    cr_assert_str_eq(l.data.fold_names[0], "3");
}

/* ---- .npz ---- */

static void npz(const char *name, const char *const *members, const char *const *bytes, const size_t *sizes,
                int n, bool stored)
{
    char path[256];
    zip_t *zip = zip_open(ts_join(path, sizeof path, l.folder, name), ZIP_CREATE | ZIP_TRUNCATE, NULL);
    cr_assert(zip);
    for (int i = 0; i < n; i++) {
        zip_source_t *source = zip_source_buffer(zip, bytes[i], sizes[i], 0);
        zip_int64_t index = zip_file_add(zip, members[i], source, 0);
        cr_assert(index >= 0);
        zip_set_file_compression(zip, (zip_uint64_t)index, stored ? ZIP_CM_STORE : ZIP_CM_DEFLATE, 0);
    }
    cr_assert_eq(zip_close(zip), 0);
}

#define NPZ "source: npz, path: a.npz"

static char x_bytes[512], y_bytes[512];
static size_t npz_sizes[2];

static void plain_npz(const char *x_name, const char *y_name, bool stored)
{
    const char *names[] = {x_name, y_name}, *bytes[] = {x_bytes, y_bytes};
    npz_sizes[0] =
        npy_bytes(x_bytes, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)}", x6, sizeof x6);
    npz_sizes[1] =
        npy_bytes(y_bytes, 1, "{'descr': '<i4', 'fortran_order': False, 'shape': (3,)}", y3, sizeof y3);
    npz("a.npz", names, bytes, npz_sizes, 2, stored);
}

Test(arrays, archives)
{
    plain_files();
    loads(XY);
    uint64_t hash = l.data.hash;
    for (int stored = 0; stored < 2; stored++) {
        plain_npz("x.npy", "y.npy", stored);
        loads(NPZ);
        cr_assert_eq(l.data.hash, hash);
        cr_assert_eq(l.data.nfiles, 1);
    }
    plain_npz("arr_0.npy", "y.npy", true);
    loads(NPZ ", x: arr_0");
    refuses(NPZ, "no array 'x'", "arr_0, y");
    plain_npz("x.npy", "x", true);
    refuses(NPZ, "2 arrays called 'x'", NULL);
    cr_assert(ts_loading_file(&l, "a.npz", "PK\x03\x04 no archive", 0));
    refuses(NPZ, "a.npz", "no .npz archive");
    npy("a.npz", "<f4", "False", "(3, 2)", x6, sizeof x6);
    refuses(NPZ, "a.npz", "no .npz archive");
}

/* Whatever single byte of an archive is wrong, the data are refused or the same as before. */
Test(arrays, damaged_archives)
{
    char path[256];
    size_t size;
    plain_npz("x.npy", "y.npy", false);
    ts_join(path, sizeof path, l.folder, "a.npz");
    char *bytes = ts_read_file(path, &size);
    loads(NPZ);
    uint64_t hash = l.data.hash;
    int refused = 0;
    for (size_t i = 0; i < size; i++) {
        bytes[i] ^= 0x41;
        cr_assert(ts_write_file(path, bytes, size));
        bytes[i] ^= 0x41;
        if (ts_load(&l, NPZ, "sparse_categorical_crossentropy") == 0) {
            cr_assert_eq(l.data.hash, hash, "byte %zu", i);
        } else {
            refused++;
        }
    }
    cr_assert_gt(refused, 100);
    for (size_t cut = 0; cut < size; cut += 7) {
        cr_assert(ts_write_file(path, bytes, cut));
        refuses(NPZ, "a.npz", NULL);
    }
    free(bytes);
}

/* A small archive that unpacks to far more than its header says, and one that claims more than memory. */
Test(arrays, zip_bombs)
{
    static char zeros[4 << 20];
    const char *names[] = {"x.npy", "y.npy"}, *bytes[] = {zeros, y_bytes};
    plain_npz("x.npy", "y.npy", false);
    npy_bytes(zeros, 1, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2)}", x6, sizeof x6);
    size_t sizes[] = {sizeof zeros, npz_sizes[1]};
    npz("a.npz", names, bytes, sizes, 2, false);
    refuses(NPZ, "does not fit", NULL);
    npy_bytes(zeros, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (1000000000, 1000000000)}", x6, 0);
    npz("a.npz", names, bytes, sizes, 2, false);
    refuses(NPZ, "cut off", NULL);
}

Test(arrays, sine)
{
    loads_as("source: sine, samples: 20000, anomalies: 500, height: 3, noise: 0.1, seed: 5, window: {length: "
             "3, label: any}",
             "categorical_crossentropy");
    double sum = 0, squares = 0;
    int anomalies = 0;
    for (int64_t i = 0; i < 20000; i++) {
        bool hit = fm_packed_get(&l.data.classes, i);
        double noise = ts_load_value(&l, i, 0) - sin((double)i) - 3 * hit;
        anomalies += hit;
        sum += noise;
        squares += noise * noise;
    }
    cr_assert_eq(anomalies, 500);
    cr_assert_float_eq(sum / 20000, 0, 0.005);
    cr_assert_float_eq(sqrt(squares / 20000), 0.1, 0.005);
    uint64_t hash = l.data.hash;
    loads_as("source: sine, samples: 20000, anomalies: 500, height: 3, noise: 0.1, seed: 6, window: {length: "
             "3, label: any}",
             "categorical_crossentropy");
    cr_assert_neq(l.data.hash, hash);
    l.longest = 104;
    loads_as("source: sine, samples: 1000, anomalies: 10, window: {length: 104, label: any, edge: wrap}",
             "categorical_crossentropy");
    cr_assert_eq(l.data.positions, 1103);
    cr_assert_eq(l.data.values[1050], l.data.values[50]);
    cr_assert_eq(fm_dataset_record_length(&l.data, 0), 1000);
}
