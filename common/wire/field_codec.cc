#include "common/wire/field_codec.h"

#include <algorithm>
#include <cmath>
#include <optional>

namespace baton::wire {

void put(const U128& from, pb::U128* to) {
  to->set_hi(from.hi);
  to->set_lo(from.lo);
}
U128 get(const pb::U128& from) { return {from.hi(), from.lo()}; }

void put(const RunKey& from, pb::RunKey* to) {
  put(from.request.value, to->mutable_request());
  to->set_attempt(from.attempt);
  to->set_leg(from.leg);
}
bool get(const pb::RunKey& from, RunKey* to) {
  to->request.value = get(from.request());
  to->attempt = static_cast<uint16_t>(from.attempt());
  to->leg = static_cast<uint8_t>(from.leg());
  return from.attempt() <= 0xFFFF && from.leg() <= 0xFF && !to->request.value.is_zero();
}

bool get_finish(uint32_t from, FinishReason* to) {
  *to = static_cast<FinishReason>(from);
  return from <= static_cast<uint32_t>(FinishReason::kCancelled);
}

void put(const SamplingSpec& from, pb::Sampling* to) {
  to->set_temperature(from.temperature);
  to->set_top_p(from.top_p);
  to->set_min_p(from.min_p);
  to->set_top_k(from.top_k);
  to->set_repetition_penalty(from.repetition_penalty);
  to->set_presence_penalty(from.presence_penalty);
  to->set_frequency_penalty(from.frequency_penalty);
  for (const auto& [token, value] : from.logit_bias) {
    auto* bias = to->add_logit_bias();
    bias->set_token(token);
    bias->set_value(value);
  }
  put_tokens(from.allowed_token_ids, to->mutable_allowed_token_ids());
  for (const std::vector<TokenId>& word : from.bad_words) {
    put_tokens(word, to->add_bad_words()->mutable_ids());
  }
  put_tokens(from.stop_token_ids, to->mutable_stop_token_ids());
  put_tokens(from.end_ids, to->mutable_end_ids());
  to->set_ignore_eos(from.ignore_eos);
  to->set_min_tokens(from.min_tokens);
  to->set_max_tokens(from.max_tokens);
  to->set_seed(from.seed);
  to->set_logprobs(from.logprobs);
  to->set_grammar_kind(from.grammar_kind);
  for (const std::string& text : from.grammar_texts) {
    to->add_grammar_texts(text);
  }
  to->set_token_count(from.token_count);
  to->set_beam_width(from.beam_width);
  to->set_length_penalty(from.length_penalty);
}
void get(const pb::Sampling& from, SamplingSpec* to) {
  to->temperature = from.temperature();
  to->top_p = from.top_p();
  to->min_p = from.min_p();
  to->top_k = from.top_k();
  to->repetition_penalty = from.repetition_penalty();
  to->presence_penalty = from.presence_penalty();
  to->frequency_penalty = from.frequency_penalty();
  for (const auto& bias : from.logit_bias()) {
    to->logit_bias.emplace_back(bias.token(), bias.value());
  }
  to->allowed_token_ids = get_tokens(from.allowed_token_ids());
  for (const auto& word : from.bad_words()) {
    to->bad_words.push_back(get_tokens(word.ids()));
  }
  to->stop_token_ids = get_tokens(from.stop_token_ids());
  to->end_ids = get_tokens(from.end_ids());
  to->ignore_eos = from.ignore_eos();
  to->min_tokens = from.min_tokens();
  to->max_tokens = from.max_tokens();
  to->seed = from.seed();
  to->logprobs = from.logprobs();
  // A kind that this build does not know stays one: the worker refuses it.
  to->grammar_kind = static_cast<uint8_t>(std::min(from.grammar_kind(), 0xFFu));
  to->grammar_texts.assign(from.grammar_texts().begin(), from.grammar_texts().end());
  to->token_count = from.token_count();
  to->beam_width = from.beam_width();
  to->length_penalty = from.length_penalty();
}

void put(const TokenLogprob& from, pb::TokenLogprob* to) {
  to->set_logprob(from.logprob);
  for (const auto& [token, value] : from.top) {
    auto* top = to->add_top();
    top->set_token(token);
    top->set_value(value);
  }
  to->set_rank(from.rank);
}
void get(const pb::TokenLogprob& from, TokenLogprob* to) {
  to->logprob = from.logprob();
  to->rank = from.rank();
  for (const auto& top : from.top()) {
    to->top.emplace_back(top.token(), top.value());
  }
}

void put(const RunBody& from, pb::RunBody* to) {
  put(from.key, to->mutable_key());
  put_tokens(from.prompt, to->mutable_prompt());
  for (const ChoiceState& choice : from.choices) {
    auto* c = to->add_choices();
    put_tokens(choice.output, c->mutable_output());
    c->set_finished(static_cast<uint32_t>(choice.finished));
  }
  put(from.sampling, to->mutable_sampling());
  to->set_prompt_logprobs(from.prompt_logprobs);
  to->set_cache_salt(from.cache_salt);
  to->set_whole_blocks(from.whole_blocks);
  to->set_priority(from.priority);
  to->set_router(from.router.value);
  to->set_deadline_ms(from.deadline_ms);
}
bool get(const pb::RunBody& from, RunBody* to) {
  if (!get(from.key(), &to->key) || from.choices().empty() || from.prompt().empty()) {
    return false;
  }
  to->prompt = get_tokens(from.prompt());
  to->choices.clear();
  for (const auto& c : from.choices()) {
    ChoiceState choice;
    choice.output = get_tokens(c.output());
    if (!get_finish(c.finished(), &choice.finished)) {
      return false;
    }
    to->choices.push_back(std::move(choice));
  }
  get(from.sampling(), &to->sampling);
  to->prompt_logprobs = from.has_prompt_logprobs() ? from.prompt_logprobs() : -1;
  to->cache_salt = from.cache_salt();
  to->whole_blocks = from.whole_blocks();
  to->priority = from.priority();
  to->router.value = from.router();
  to->deadline_ms = from.deadline_ms();
  return true;
}

void put(const RunTimings& from, pb::RunTimings* to) {
  to->set_prefill_worker(from.prefill_worker);
  to->set_queue_ms(from.queue_ms);
  to->set_prefill_ms(from.prefill_ms);
  to->set_prompt_tokens_computed(from.prompt_tokens_computed);
  to->set_prompt_tokens_cached(from.prompt_tokens_cached);
  to->set_transport(from.transport);
  to->set_transfer_ms(from.transfer_ms);
  to->set_transfer_visible_ms(from.transfer_visible_ms);
  to->set_transfer_bytes(from.transfer_bytes);
  to->set_first_data_ms(from.first_data_ms);
  to->set_grant_ms(from.grant_ms);
  to->set_prefill_chunks(from.prefill_chunks);
}
void get(const pb::RunTimings& from, RunTimings* to) {
  to->prefill_worker = from.prefill_worker();
  to->queue_ms = from.queue_ms();
  to->prefill_ms = from.prefill_ms();
  to->prompt_tokens_computed = from.prompt_tokens_computed();
  to->prompt_tokens_cached = from.prompt_tokens_cached();
  to->transport = from.transport();
  to->transfer_ms = from.transfer_ms();
  to->transfer_visible_ms = from.transfer_visible_ms();
  to->transfer_bytes = from.transfer_bytes();
  to->first_data_ms = from.first_data_ms();
  to->grant_ms = from.grant_ms();
  to->prefill_chunks = from.prefill_chunks();
}

void put(const WorkerInfo& from, pb::WorkerInfo* to) {
  to->set_proto_version(from.proto_version);
  to->set_role(static_cast<uint32_t>(from.role));
  to->set_name(from.name);
  to->set_incarnation(from.incarnation.value);
  to->set_model_name(from.model_name);
  put(from.model_hash, to->mutable_model_hash());
  to->set_numerics(from.numerics);
  to->set_transfer_address(from.transfer_address);
  to->set_http_url(from.http_url);
  to->set_tensor_parallel(from.tensor_parallel);
  to->set_segments(from.segments);
  to->set_block_tokens(from.block_tokens);
  to->set_blocks_total(from.blocks_total);
  to->set_max_context(from.max_context);
  to->set_vocab_size(from.vocab_size);
  to->set_kv_bytes_per_token(from.kv_bytes_per_token);
  to->set_window_tokens(from.window_tokens);
  to->set_window_blocks_total(from.window_blocks_total);
  to->set_window_kv_bytes_per_token(from.window_kv_bytes_per_token);
  to->set_pid(from.pid);
  to->set_boot_id(from.boot_id);
  to->set_pid_namespace(from.pid_namespace);
}
bool get(const pb::WorkerInfo& from, WorkerInfo* to) {
  if (from.role() > static_cast<uint32_t>(Role::kDecode) || from.incarnation() == 0) {
    return false;
  }
  to->proto_version = from.proto_version();
  to->role = static_cast<Role>(from.role());
  to->name = from.name();
  to->incarnation.value = from.incarnation();
  to->model_name = from.model_name();
  to->model_hash = get(from.model_hash());
  to->numerics = from.numerics();
  to->transfer_address = from.transfer_address();
  to->http_url = from.http_url();
  to->tensor_parallel = from.tensor_parallel();
  to->segments = from.segments();
  to->block_tokens = from.block_tokens();
  to->blocks_total = from.blocks_total();
  to->max_context = from.max_context();
  to->vocab_size = from.vocab_size();
  to->kv_bytes_per_token = from.kv_bytes_per_token();
  to->window_tokens = from.window_tokens();
  to->window_blocks_total = from.window_blocks_total();
  to->window_kv_bytes_per_token = from.window_kv_bytes_per_token();
  to->pid = from.pid();
  to->boot_id = from.boot_id();
  to->pid_namespace = from.pid_namespace();
  return true;
}

namespace {

void put(const RecentLoad& from, pb::RecentLoad* to) {
  const auto set = [to](void (pb::RecentLoad::*setter)(double), std::optional<double> value) {
    if (value) {
      (to->*setter)(*value);
    }
  };
  set(&pb::RecentLoad::set_prefill_tokens_per_s, from.prefill_tokens_per_s);
  set(&pb::RecentLoad::set_prefill_roofline_share, from.prefill_roofline_share);
  set(&pb::RecentLoad::set_decode_tokens_per_s, from.decode_tokens_per_s);
  set(&pb::RecentLoad::set_decode_roofline_share, from.decode_roofline_share);
  set(&pb::RecentLoad::set_batch_mean, from.batch_mean);
  set(&pb::RecentLoad::set_preemptions, from.preemptions);
  set(&pb::RecentLoad::set_prefix_hit_ratio, from.prefix_hit_ratio);
  set(&pb::RecentLoad::set_step_ms_p50, from.step_ms_p50);
}
void get(const pb::RecentLoad& from, RecentLoad* to) {
  const auto value = [](bool there, double number) {
    return there && std::isfinite(number) ? std::optional(number) : std::nullopt;
  };
  to->prefill_tokens_per_s = value(from.has_prefill_tokens_per_s(), from.prefill_tokens_per_s());
  to->prefill_roofline_share =
      value(from.has_prefill_roofline_share(), from.prefill_roofline_share());
  to->decode_tokens_per_s = value(from.has_decode_tokens_per_s(), from.decode_tokens_per_s());
  to->decode_roofline_share = value(from.has_decode_roofline_share(), from.decode_roofline_share());
  to->batch_mean = value(from.has_batch_mean(), from.batch_mean());
  to->preemptions = value(from.has_preemptions(), from.preemptions());
  to->prefix_hit_ratio = value(from.has_prefix_hit_ratio(), from.prefix_hit_ratio());
  to->step_ms_p50 = value(from.has_step_ms_p50(), from.step_ms_p50());
}

}  // namespace

void put(const Heartbeat& from, pb::Heartbeat* to) {
  to->set_incarnation(from.incarnation.value);
  to->set_draining(from.draining);
  to->set_loop_ticks(from.loop_ticks);
  to->set_compute_ticks(from.compute_ticks);
  to->set_step_running(from.step_running);
  to->set_running(from.running);
  to->set_waiting(from.waiting);
  to->set_blocks_total(from.blocks_total);
  to->set_blocks_free(from.blocks_free);
  to->set_window_blocks_total(from.window_blocks_total);
  to->set_window_blocks_free(from.window_blocks_free);
  to->set_waiting_tokens(from.waiting_tokens);
  to->set_prefill_tokens_per_s(from.prefill_tokens_per_s);
  to->set_decode_step_ms(from.decode_step_ms);
  to->set_transfer_bytes_per_s(from.transfer_bytes_per_s);
  for (const LinkInfo& link : from.links) {
    auto* l = to->add_links();
    l->set_peer(link.peer);
    l->set_transport(link.transport);
  }
  for (const U128& hash : from.cache_added) {
    put(hash, to->add_cache_added());
  }
  for (const U128& hash : from.cache_removed) {
    put(hash, to->add_cache_removed());
  }
  to->set_cache_overflow(from.cache_overflow);
  put(from.recent, to->mutable_recent());
}
void get(const pb::Heartbeat& from, Heartbeat* to) {
  to->incarnation.value = from.incarnation();
  to->draining = from.draining();
  to->loop_ticks = from.loop_ticks();
  to->compute_ticks = from.compute_ticks();
  to->step_running = from.step_running();
  to->running = from.running();
  to->waiting = from.waiting();
  to->blocks_total = from.blocks_total();
  to->blocks_free = from.blocks_free();
  to->window_blocks_total = from.window_blocks_total();
  to->window_blocks_free = from.window_blocks_free();
  to->waiting_tokens = from.waiting_tokens();
  to->prefill_tokens_per_s = from.prefill_tokens_per_s();
  to->decode_step_ms = from.decode_step_ms();
  to->transfer_bytes_per_s = from.transfer_bytes_per_s();
  for (const auto& l : from.links()) {
    to->links.push_back({l.peer(), l.transport()});
  }
  for (const auto& hash : from.cache_added()) {
    to->cache_added.push_back(get(hash));
  }
  for (const auto& hash : from.cache_removed()) {
    to->cache_removed.push_back(get(hash));
  }
  to->cache_overflow = from.cache_overflow();
  get(from.recent(), &to->recent);
}

void put(const Hello& from, pb::Hello* to) {
  to->set_proto_version(from.proto_version);
  to->set_name(from.name);
  to->set_role(static_cast<uint32_t>(from.role));
  to->set_incarnation(from.incarnation.value);
  to->set_boot_id(from.boot_id);
  to->set_pid_namespace(from.pid_namespace);
  to->set_network_namespace(from.network_namespace);
  to->set_shared_memory(from.shared_memory);
  to->set_pid(from.pid);
  put(from.model_hash, to->mutable_model_hash());
  to->set_numerics(from.numerics);
  to->set_segments(from.segments);
  to->set_block_tokens(from.block_tokens);
  for (const CacheGroupInfo& group : from.groups) {
    auto* g = to->add_groups();
    g->set_kind(group.kind);
    g->set_dtype(group.dtype);
    g->set_layers(group.layers);
    g->set_kv_heads(group.kv_heads);
    g->set_k_dim(group.k_dim);
    g->set_v_dim(group.v_dim);
    g->set_window(group.window);
  }
  to->set_layer_groups(std::string(from.layer_groups.begin(), from.layer_groups.end()));
  for (const uint8_t layout : from.layouts) {
    to->add_layouts(layout);
  }
  for (const HeadRangeInfo& heads : from.heads) {
    auto* h = to->add_heads();
    h->set_begin(heads.begin);
    h->set_end(heads.end);
  }
  for (const std::string& transport : from.transports) {
    to->add_transports(transport);
  }
  to->set_worker_address(from.worker_address);
  for (const std::string& device : from.devices) {
    to->add_devices(device);
  }
  to->set_digest(from.digest);
  to->set_heartbeat_ms(from.heartbeat_ms);
}
bool get(const pb::Hello& from, Hello* to) {
  if (from.role() > static_cast<uint32_t>(Role::kDecode) || from.incarnation() == 0) {
    return false;
  }
  to->proto_version = from.proto_version();
  to->name = from.name();
  to->role = static_cast<Role>(from.role());
  to->incarnation.value = from.incarnation();
  to->boot_id = from.boot_id();
  to->pid_namespace = from.pid_namespace();
  to->network_namespace = from.network_namespace();
  to->shared_memory = from.shared_memory();
  to->pid = from.pid();
  to->model_hash = get(from.model_hash());
  to->numerics = from.numerics();
  to->segments = from.segments();
  to->block_tokens = from.block_tokens();
  for (const auto& g : from.groups()) {
    if (g.kind() > 0xFF || g.dtype() > 0xFF) {
      return false;
    }
    to->groups.push_back({static_cast<uint8_t>(g.kind()), static_cast<uint8_t>(g.dtype()),
                          g.layers(), g.kv_heads(), g.k_dim(), g.v_dim(), g.window()});
  }
  to->layer_groups.assign(from.layer_groups().begin(), from.layer_groups().end());
  for (const uint32_t layout : from.layouts()) {
    if (layout > 0xFF) {
      return false;
    }
    to->layouts.push_back(static_cast<uint8_t>(layout));
  }
  for (const auto& h : from.heads()) {
    to->heads.push_back({h.begin(), h.end()});
  }
  to->transports.assign(from.transports().begin(), from.transports().end());
  to->worker_address = from.worker_address();
  to->devices.assign(from.devices().begin(), from.devices().end());
  to->digest = from.digest();
  to->heartbeat_ms = from.heartbeat_ms();
  return true;
}

}  // namespace baton::wire
