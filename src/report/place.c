#include "report/place.h"

void fm_place_of(const struct fm_view *view, int64_t example, struct fm_place *place)
{
    const struct fm_dataset *data = view->data;
    int64_t anchor = fm_example_anchor(view->examples, example);
    place->record = fm_dataset_record_of(data, anchor);
    place->position = anchor - data->starts[place->record];
    place->start = place->position - view->lead;
    if (view->examples->edge == FM_EDGE_WRAP) {
        int64_t length = fm_dataset_record_length(data, place->record);
        place->start = (place->start % length + length) % length;
    }
}
