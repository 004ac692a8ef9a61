/* Groups of operations that a backend may do in one go. Only hints; see enum fm_fuse. */
#include "net/activation.h"
#include "net/builder.h"

/* Operation `at` exists, stands in the same section, reads what `at - 1` wrote, and has that code. */
static bool follows(const struct fm_program *p, int at, enum fm_opcode code)
{
    if (at >= p->nops || p->ops[at].code != code || p->ops[at].section != p->ops[at - 1].section)
        return false;
    if ((code == FM_OP_ACTIVATION || code == FM_OP_ACTIVATION_GRAD) &&
        !fm_activation_elementwise(p->ops[at].activation.kind))
        return false;
    return p->ops[at].in[0] == p->ops[at - 1].out[0];
}

static void mark(struct fm_program *p, int first, int end, enum fm_fuse fuse, int *groups)
{
    for (int i = first; i < end; i++) {
        p->ops[i].fuse = fuse;
        p->ops[i].group = *groups;
    }
    (*groups)++;
}

/* Marks the group that starts at `at`, if one does; gives the first operation after it. */
static int group(struct fm_program *p, int at, int *groups)
{
    enum fm_opcode code = p->ops[at].code;
    int end = at + 1;
    if (code == FM_OP_CONV1D || code == FM_OP_DENSE) {
        bool act = follows(p, end, FM_OP_ACTIVATION);
        if (act) end++;
        if (code == FM_OP_CONV1D && follows(p, end, FM_OP_POOL)) {
            mark(p, at, end + 1, FM_FUSE_CONV_ACT_POOL, groups);
            return end + 1;
        }
        if (act) {
            mark(p, at, end, FM_FUSE_LAYER_ACT, groups);
        } else if (code == FM_OP_DENSE && follows(p, end, FM_OP_LOSS)) {
            end++;
            if (end < p->nops && p->ops[end].code == FM_OP_SCORES) end++;
            mark(p, at, end, FM_FUSE_HEAD, groups);
        }
    } else if ((code == FM_OP_CONV1D_INPUT_GRAD || code == FM_OP_DENSE_INPUT_GRAD ||
                code == FM_OP_POOL_GRAD) &&
               follows(p, end, FM_OP_ACTIVATION_GRAD)) {
        mark(p, at, ++end, FM_FUSE_GRAD_ACT, groups);
    }
    return end;
}

void fm_program_fuse(struct fm_program *program)
{
    int groups = 0, at = 0;
    while (at < program->nops) at = group(program, at, &groups);
}
