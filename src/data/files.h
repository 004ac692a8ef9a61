/* Which files a sweep reads: lists, globs and {name} columns; opening them; their stamps. */
#ifndef FM_DATA_FILES_H
#define FM_DATA_FILES_H

#include "data/dataset.h"
#include "data/names.h"

/* A file to read and the text columns its name gives: one per {name} of the pattern, then `file`. */
struct fm_data_file {
    char *path;     /* as it is opened */
    char **columns; /* [count + 1] names, the last is "file" */
    char **values;  /* [count + 1] */
    size_t count;   /* columns from {name} */
};

struct fm_file_list {
    struct fm_data_file *files;
    size_t count, capacity;
    struct fm_names seen; /* their paths */
};

/* Expands config->path in reading order: as listed, each glob sorted byte by byte. A pattern without a match,
 * a file that is listed twice, and a pattern that gives other {name}s than the first are errors. */
int fm_file_list_init(struct fm_file_list *list, const struct fm_data_config *config, struct fm_error *err);
void fm_file_list_fini(struct fm_file_list *list);

/* folder/name, or name alone when it is absolute or the folder is "."; NULL when memory is out. */
char *fm_file_path(const char *folder, const char *name);
const char *fm_file_base(const char *path); /* the part after the last '/' */

/* Opens a regular file for reading; a directory, a FIFO, a device, a missing or forbidden file is FM_EFILE.
 * Fills size, mtime and inode of the stamp (not its path and hash). Never blocks. */
int fm_file_open(const char *path, int *fd, struct fm_file_stamp *stamp, struct fm_error *err);
/* FM_EFILE if the open file is no longer what the stamp says. */
int fm_file_check_same(const char *path, int fd, const struct fm_file_stamp *stamp, struct fm_error *err);
/* read(2) that goes on after interruptions; fewer bytes only at the end. -1: *err is filled. */
int64_t fm_file_read(const char *path, int fd, void *buffer, size_t size, struct fm_error *err);
/* Adds a stamp to the data set, which then owns stamp->path. On failure the caller still owns it. */
int fm_dataset_add_stamp(struct fm_dataset *data, const struct fm_file_stamp *stamp, struct fm_error *err);

#endif
