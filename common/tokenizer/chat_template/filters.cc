#include "common/tokenizer/chat_template/filters.h"

namespace baton::chat_template {

FilterFunction find_filter(std::string_view name) {
  for (const auto find : {find_text_filter, find_sequence_filter, find_selection_filter}) {
    if (const FilterFunction found = find(name)) {
      return found;
    }
  }
  return nullptr;
}

}  // namespace baton::chat_template
