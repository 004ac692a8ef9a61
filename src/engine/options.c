#include "engine/options.h"

int fm_lane_options_check(const struct fm_lane_options *o, const struct fm_resident *resident, int nresident,
                          struct fm_error *err)
{
    if (o->dataset < 0 || o->dataset >= nresident || !resident[o->dataset].data)
        return fm_fail(err, FM_EINTERNAL, "data set %d is not loaded", o->dataset);
    const struct fm_resident *r = &resident[o->dataset];
    if (o->view < 0 || o->view >= r->nviews || o->split < 0 || o->split >= r->nsplits)
        return fm_fail(err, FM_EINTERNAL, "view %lld or split %lld is not loaded", (long long)o->view,
                       (long long)o->split);
    const struct fm_split *split = &r->splits[o->split];
    if (o->fold < 0 || o->fold >= split->repeats * split->folds)
        return fm_fail(err, FM_EINTERNAL, "the split has no fold %lld", (long long)o->fold);
    if (r->views[o->view].length != o->program->input_rows)
        return fm_fail(err, FM_EINTERNAL, "the program reads %lld positions, the view has %lld",
                       (long long)o->program->input_rows, (long long)r->views[o->view].length);
    const int64_t channels = o->program->letters ? r->data->alphabet : r->data->channels;
    if (channels != o->program->input_channels || (o->program->letters && !r->data->letters) ||
        (!o->program->letters && !r->data->values))
        return fm_fail(err, FM_EINTERNAL, "the program reads other channels than the data have");
    return 0;
}

int fm_slot_check(int slot, struct fm_error *err)
{
    if (slot >= 0 && slot < FM_SLOTS) return 0;
    return fm_fail(err, FM_EINTERNAL, "there is no snapshot slot %d", slot);
}

int fm_request_check(const struct fm_request *r, const int64_t counts[3], int64_t classes,
                     struct fm_error *err)
{
    switch (r->kind) {
    case FM_TRAIN:
        if (r->steps > 0 && counts[FM_PART_TRAIN] == 0)
            return fm_fail(err, FM_EINTERNAL, "the part that is to be trained on is empty");
        if (r->first_step >= 0 && r->steps >= 0 && r->first_step <= INT64_MAX - r->steps) return 0;
        return fm_fail(err, FM_EINTERNAL, "steps %lld + %lld cannot be trained", (long long)r->first_step,
                       (long long)r->steps);
    case FM_EVALUATE:
        if ((r->returns & FM_RETURN_CONFUSION && (!r->confusion || classes == 0)) ||
            (r->returns & FM_RETURN_SCORES && !r->scores))
            return fm_fail(err, FM_EINTERNAL, "an evaluation has no place for what it returns");
        if ((unsigned)r->part <= FM_PART_VAL && counts[r->part] > 0) return 0;
        return fm_fail(err, FM_EINTERNAL, "the part that is to be evaluated is empty");
    case FM_SNAPSHOT:
    case FM_RESTORE: return fm_slot_check(r->slot, err);
    }
    return fm_fail(err, FM_EINTERNAL, "there is no request of kind %d", (int)r->kind);
}
