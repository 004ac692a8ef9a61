/* Layers: from the `model` tree of a trial to a program.
 *
 * Names, arguments and defaults are Keras's in snake case. One table per layer type (keys.h) reads its
 * arguments and prints its help. `repeat` and `choose` are expanded here (their parameters are already
 * substituted).
 *
 * A shape that does not work - a kernel longer than its input, a pool that leaves nothing, outputs that do
 * not fit the classes - is FM_ESHAPE with the layer's path, its line, its input shape and what would fit;
 * that trial is invalid and the others run. A mistake in the file itself (unknown layer or argument) is
 * FM_EFILE.
 */
#ifndef FM_NET_LAYERS_H
#define FM_NET_LAYERS_H

#include "net/program.h"

struct fm_net_input {
    int64_t rows;     /* window length L */
    int64_t channels; /* C, or the alphabet's size for letters */
    bool letters;
    int64_t nclasses;     /* 0 when the target is a number or a distribution */
    bool exact_classes;   /* text classes: the outputs must be as many as the classes. Class numbers of an
                             array are held against the outputs by fm_dataset_check_outputs, which names
                             the examples (case A11): not here */
    int64_t target_width; /* numbers: 1; distribution: K */
    bool distribution;
};

/* Compiles. `model` and `train` hold no parameters any more. The last layer's units must fit the loss: K for
 * (sparse_)categorical_crossentropy (equal to the number of text classes, or to the width of a distribution),
 * 1 for binary_crossentropy and the target's width for numbers. */
int fm_program_compile(struct fm_program **program, const struct fm_node *model,
                       const struct fm_train_config *train, const struct fm_net_input *input,
                       struct fm_notes *notes, struct fm_error *err);

/* Tables for `foldmill help keys`: one section per layer, ended by title == NULL. */
const struct fm_key_section *fm_layer_sections(void);

#endif
