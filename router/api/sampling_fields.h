#pragma once

// The fields of a request that say how tokens are chosen: temperature and truncation, penalties,
// bias, what may and may not come, ends, seed, beam search.

#include "router/api/field_reader.h"
#include "router/api/request.h"

namespace baton::router {

// Of both completion paths.
void read_sampling(FieldReader& fields, ApiRequest& request, const tokenizer::Tokenizer& vocab);

// After the fields that choose tokens in other ways, and `n`: beam search refuses what would change
// its candidates. What only concerns drawing (temperature, top_p, seed and so on) has no effect.
void read_beam_search(FieldReader& fields, ApiRequest& request);

// Rules between fields; after all of them were read.
void check_sampling(FieldReader& fields, const ApiRequest& request);

}  // namespace baton::router
