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
