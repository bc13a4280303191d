#pragma once

// Reads one call that a model writes as JSON, {"name": ..., "arguments": {...}}, while it arrives.
// The arguments are passed on as the model writes them, byte for byte, as soon as the function is
// known; so an answer reads the same streamed and whole.

#include <cstdint>
#include <string>
#include <string_view>

namespace baton::router {

class CallReader {
 public:
  enum class State : uint8_t {
    kUnnamed,  // more text is needed to know the function
    kNamed,    // name() is known, arguments() grows
    kWhole,    // the object is closed
    kBroken,   // not such an object
  };

  CallReader() = default;
  // Of a call whose name stands before the arguments: what follows is their object.
  static CallReader of_arguments(std::string name);

  // The next byte of the object, whose first is '{'. Precondition: kUnnamed or kNamed.
  State feed(char c);
  State state() const { return state_; }
  const std::string& name() const { return name_; }
  // What arrived of the arguments since the last time: once the function is known. Arguments that
  // are no object but a text that holds one are unpacked; without any they are {}.
  std::string take_arguments();

 private:
  enum class At : uint8_t { kBegin, kKeyOrEnd, kKey, kColon, kValue, kCommaOrEnd };
  enum class Value : uint8_t { kSkipped, kName, kArguments };

  void begin_value(char c);
  void value_byte(char c);
  void end_value();
  void note_name();
  bool take_structure(char c);

  State state_ = State::kUnnamed;
  At at_ = At::kBegin;
  Value value_ = Value::kSkipped;
  std::string key_;
  std::string text_;  // of a value that is looked at when it is whole
  std::string name_;
  std::string arguments_;
  bool has_name_ = false;
  bool has_arguments_ = false;
  bool passes_on_ = false;  // the arguments are an object
  bool bare_ = false;       // only they are read
  bool in_string_ = false;
  bool escaped_ = false;
  std::string closers_;  // open brackets of the value, as what closes them
};

}  // namespace baton::router
