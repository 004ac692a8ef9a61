/* A readable listing of a program: one line a layer, variable, operation and tensor, for tests, profiles and
 * people who ask what runs. */
#ifndef FM_NET_PRINT_H
#define FM_NET_PRINT_H

#include "base/text.h"
#include "net/program.h"

/* Keras's words where it has them: "conv1d", "conv1d_weight_grad", "forward", "relu". */
const char *fm_opcode_name(enum fm_opcode code);
const char *fm_section_name(enum fm_section section);
const char *fm_activation_name(enum fm_activation kind);

void fm_program_print(const struct fm_program *program, struct fm_text *text);

#endif
