// Concatenates the parts of a message, which may have any types, by writing them to a single stream.
#include "mpsgraph/core/errors.h"

#include <sstream>

namespace mpsgraph {

std::string Piece::join(std::initializer_list<Piece> pieces) {
  std::ostringstream out;
  for (const Piece& piece : pieces) piece.write_(out, piece.value_);
  return std::move(out).str();
}

void Piece::write_text(std::ostream& out, const void* text) { out << static_cast<const char*>(text); }

}  // namespace mpsgraph
