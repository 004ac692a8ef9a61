#include "support/network.h"

#include <string.h>

struct fm_net_input ts_net_input(int64_t rows, int64_t channels)
{
    return (struct fm_net_input){
        .rows = rows, .channels = channels, .nclasses = 2, .exact_classes = true, .target_width = 1};
}

struct fm_train_config ts_net_train(enum fm_loss_kind loss)
{
    struct fm_train_config train = {.batch_size = 32, .epochs = 1, .shuffle = true};
    train.loss.kind = loss;
    train.loss.delta = 1;
    train.optimizer.kind = FM_OPTIMIZER_ADAM;
    train.optimizer.learning_rate = 1e-3;
    train.optimizer.beta_1 = 0.9;
    train.optimizer.beta_2 = 0.999;
    train.optimizer.epsilon = 1e-7;
    return train;
}

int ts_network_init(struct ts_network *n, const char *model, const struct fm_net_input *input,
                    const struct fm_train_config *train)
{
    memset(n, 0, sizeof *n);
    n->code = fm_document_parse(&n->document, "net.yaml", model, strlen(model), &n->notes, &n->error);
    if (n->code) return n->code;
    struct fm_train_config with_place = *train;
    if (!with_place.loss.where) with_place.loss.where = n->document.root;
    n->code = fm_program_compile(&n->program, n->document.root, &with_place, input, &n->notes, &n->error);
    return n->code;
}

void ts_network_fini(struct ts_network *n)
{
    fm_program_free(n->program);
    fm_notes_fini(&n->notes);
    fm_document_fini(&n->document);
    memset(n, 0, sizeof *n);
}
