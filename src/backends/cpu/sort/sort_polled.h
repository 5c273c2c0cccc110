// std::sort that ends with CancelledError soon after the run was cancelled.
#pragma once

#include <algorithm>
#include <functional>

#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {

// Sort [first, last). Long ranges are first split at their median, until std::sort of a part takes milliseconds.
template <class Iterator, class Less = std::less<>>
void sort_polled(Iterator first, Iterator last, Less is_less = {}) {
  while (last - first > elements_per_poll) {
    poll_run();
    const Iterator middle = first + (last - first) / 2;
    std::nth_element(first, middle, last, is_less);
    sort_polled(first, middle, is_less);
    first = middle;
  }
  poll_run();
  std::sort(first, last, is_less);
}

}  // namespace mpsgraph::cpu
