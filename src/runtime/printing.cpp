// Printing of tensors: numbers with the fewest digits that identify them, brackets around each axis, and the
// process-wide print handler.
#include "runtime/printing.h"

#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>

#include "mpsgraph/core/attributes.h"
#include "mpsgraph/runtime/printing.h"

namespace mpsgraph::runtime {
namespace {

struct Handling {
  std::mutex mutex;
  std::shared_ptr<const PrintHandler> handler;  // null if text is printed to standard output
};

Handling& handling() {
  static Handling& one = *new Handling;  // never destroyed, because runs may print until the process ends
  return one;
}

void hand_over(const std::string& text) {
  std::shared_ptr<const PrintHandler> handler;
  {
    const std::lock_guard lock(handling().mutex);
    handler = handling().handler;
  }
  if (handler) return (*handler)(text);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

std::string text_of_real(double value, DType dtype) {
  if (std::isnan(value)) return "nan";
  char buffer[64];
  const auto written = [&](std::to_chars_result result) { return std::string(buffer, result.ptr); };
  constexpr auto general = std::chars_format::general;
  if (dtype == DType::float16) return written(std::to_chars(buffer, std::end(buffer), value, general, 5));
  if (dtype == DType::bfloat16) return written(std::to_chars(buffer, std::end(buffer), value, general, 4));
  if (dtype == DType::float64 || dtype == DType::complex128)
    return written(std::to_chars(buffer, std::end(buffer), value));
  return written(std::to_chars(buffer, std::end(buffer), static_cast<float>(value)));
}

class Writer {
 public:
  Writer(const TensorType& type, const std::byte* elements, int64_t at_each_end)
      : data_(ConstantData::borrow(type.dtype, type.shape.dims(), elements, nullptr)),
        dims_(type.shape.dims()),
        at_each_end_(at_each_end) {}

  std::string text() {
    write(0, 0);
    return std::move(out_);
  }

 private:
  void write(size_t axis, int64_t place) {
    if (axis == dims_.size()) {
      out_ += element(place);
      return;
    }
    const int64_t count = dims_[axis];
    const bool all = at_each_end_ < 0 || count <= 2 * at_each_end_;
    out_ += '[';
    for (int64_t i = 0; i < count; ++i) {
      if (i > 0) separate(axis);
      if (!all && i == at_each_end_) {
        out_ += "...";
        separate(axis);
        i = count - at_each_end_;
      }
      write(axis + 1, place * count + i);
    }
    out_ += ']';
  }

  void separate(size_t axis) {
    const size_t inner = dims_.size() - 1 - axis;
    out_ += inner == 0 ? ", " : "," + std::string(inner, '\n') + std::string(axis + 1, ' ');
  }

  std::string element(int64_t place) const {
    const DType dtype = data_->dtype();
    if (dtype == DType::boolean) return data_->integer(place) ? "true" : "false";
    if (is_integer(dtype)) {
      const int64_t value = data_->integer(place);
      return dtype == DType::uint64 ? std::to_string(static_cast<uint64_t>(value)) : std::to_string(value);
    }
    const std::string real = text_of_real(data_->scalar(place), dtype);
    if (!is_complex(dtype)) return real;
    const std::string imaginary = text_of_real(data_->imaginary(place), dtype);
    return real + (imaginary[0] == '-' ? "" : "+") + imaginary + "j";
  }

  const ConstantPtr data_;
  const Dims dims_;
  const int64_t at_each_end_;
  std::string out_;
};

}  // namespace

std::string text_of(const TensorType& type, const std::byte* elements, int64_t at_each_end) {
  return Writer(type, elements, at_each_end).text();
}

void print_tensor(const Operation& print, const std::byte* elements) {
  const Tensor& tensor = *print.output();
  const std::string& message = print.attributes.string("message");
  const std::string text = text_of(tensor.type, elements, print.attributes.integer("summarize"));
  hand_over(cat(message.empty() ? print.name : message, ": ", tensor.type,
                text.find('\n') == std::string::npos ? " " : "\n", text, "\n"));
}

void print_line(const std::string& text) { hand_over(text + "\n"); }

void set_print_handler(PrintHandler handler) {
  auto taken = handler ? std::make_shared<const PrintHandler>(std::move(handler)) : nullptr;
  const std::lock_guard lock(handling().mutex);
  handling().handler = std::move(taken);
}

}  // namespace mpsgraph::runtime
