/* What a look means: escape sequences and characters. */
#ifndef FM_REPORT_LOOK_H
#define FM_REPORT_LOOK_H

#include "foldmill.h"

static inline const char *fm_look_bold(const struct fm_look *look)
{
    return look && look->color ? "\033[1m" : "";
}
static inline const char *fm_look_warn(const struct fm_look *look)
{
    return look && look->color ? "\033[33m" : "";
}
static inline const char *fm_look_off(const struct fm_look *look)
{
    return look && look->color ? "\033[0m" : "";
}
static inline const char *fm_look_plus_minus(const struct fm_look *look)
{
    return look && look->utf8 ? "\u00b1" : "+-";
}
static inline int fm_look_columns(const struct fm_look *look)
{
    return look && look->columns > 0 ? look->columns : 80;
}

#endif
