// Fourier plans: radices, twiddle factors, and convolutions, all computed in double, and the choice of instruction set.
#include "backends/cpu/fourier/fourier_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <type_traits>

#include "backends/cpu/parallel.h"

namespace mpsgraph::cpu {
namespace {

constexpr int64_t shortest_matrix = 256;  // shorter signals are transformed side by side in lanes

std::vector<int> factors(int64_t n) {
  std::vector<int> result;
  const auto take = [&](int radix) {
    while (n % radix == 0) result.push_back(radix), n /= radix;
  };
  take(8);
  for (int radix : {4, 2, 3, 5}) take(radix);
  for (int radix = 7; n > 1 && radix <= LanePlan<float>::max_radix; radix += 2) take(radix);
  if (n > 1) return {};
  return result;
}

// Return the smallest divisor of n that is at least its square root. Both sides of the matrix are then long, and the
// longer one has enough points to fill all lanes.
int64_t longer_side(int64_t n) {
  auto d = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (n % d != 0) --d;
  return n / d;
}

int64_t power_of_two_from(int64_t n) {
  int64_t m = 1;
  while (m < n) m *= 2;
  return m;
}

}  // namespace

std::complex<double> root_of_unity(int64_t k, int64_t n) {
  k %= n;
  // round the angle to a whole number of quarter turns; the remaining angle is at most an eighth of a turn
  const int64_t quarter = (8 * k / n + 1) / 2;
  const double angle = 2 * std::numbers::pi * (static_cast<double>(4 * k - quarter * n) / static_cast<double>(4 * n));
  const double c = std::cos(angle), s = std::sin(angle);
  const std::complex<double> turned[4] = {{c, -s}, {-s, -c}, {-c, s}, {s, c}};
  return turned[quarter % 4];
}

template <class T>
bool LanePlan<T>::possible(int64_t n) {
  return n == 1 || !factors(n).empty();
}

template <class T>
LanePlan<T>::LanePlan(int64_t n, int64_t columns, int lanes) : n(n) {
  int64_t before = 1;
  for (int radix : factors(n)) {
    Pass pass{radix, before, n / before / radix, {}, 0, {}};
    const int64_t whole = columns * before * radix;
    const bool turned = whole > radix;
    const auto factor = [&](int which, int64_t q) {  // requires q < columns * before
      const int64_t power = radix == 8 ? std::array{1, 1, 2, 4}[which] : which + 1;
      const int64_t eighth = radix == 8 && which == 1 ? whole : 0;
      return root_of_unity(8 * power * q + eighth, 8 * whole);
    };
    const int count = !turned ? 0 : radix == 4 ? 2 : radix == 8 ? 4 : radix - 1;
    const int width = std::max(lanes, 1);
    pass.factors_stride = 2 * count * width;
    for (int64_t block = 0; block * width < columns; ++block) {
      for (int64_t q = 0; q < before; ++q) {
        for (int which = 0; which < count; ++which) {
          for (bool imaginary : {false, true}) {
            for (int lane = 0; lane < width; ++lane) {
              const std::complex<double> w =
                  factor(which, first_lane(block * width, columns, width) + lane + columns * q);
              pass.factors.push_back(static_cast<T>(imaginary ? w.imag() : w.real()));
            }
          }
        }
      }
    }
    for (int k = 0; radix > 5 && radix != 8 && k < radix; ++k) {
      const std::complex<double> w = root_of_unity(k, radix);
      pass.roots.push_back(static_cast<T>(w.real())), pass.roots.push_back(static_cast<T>(w.imag()));
    }
    before *= radix;
    passes.push_back(std::move(pass));
  }
}

template <class T>
FourierPlan<T>::FourierPlan(int64_t n, int lanes) : n(n), lanes(lanes), poll(poll_run) {
  if (!LanePlan<T>::possible(n)) {
    convolution = std::make_unique<FourierPlan>(power_of_two_from(2 * n - 1), lanes);
    const int64_t m = convolution->n;
    const auto room = static_cast<size_t>(m + lanes);
    std::vector<T> filter_re(room), filter_im(room);
    for (int64_t j = 0; j < n; ++j) {
      const std::complex<double> w = root_of_unity(static_cast<int64_t>(static_cast<__int128>(j) * j % (2 * n)), 2 * n);
      chirp_re.push_back(static_cast<T>(w.real())), chirp_im.push_back(static_cast<T>(w.imag()));
      const auto back = static_cast<size_t>(j == 0 ? 0 : m - j), at = static_cast<size_t>(j);
      filter_re[at] = filter_re[back] = static_cast<T>(w.real() / static_cast<double>(m));
      filter_im[at] = filter_im[back] = static_cast<T>(-w.imag() / static_cast<double>(m));
    }
    std::vector<T> work(convolution->work());
    spectrum_re.resize(room), spectrum_im.resize(room);
    fourier_functions<T>().signal(*convolution, filter_re.data(), filter_im.data(), spectrum_re.data(),
                                  spectrum_im.data(), work.data());
    return;
  }
  if (n < shortest_matrix) {
    whole = LanePlan<T>(n);
    return;
  }
  n1 = longer_side(n), n2 = n / n1;
  columns = LanePlan<T>(n1), rows = LanePlan<T>(n2, n1, lanes);
}

template <class T>
size_t FourierPlan<T>::work() const {
  if (convolution) return 4 * static_cast<size_t>(convolution->n + lanes) + convolution->work();
  if (!n1) return static_cast<size_t>(6 * lanes * n);
  return static_cast<size_t>(2 * plane() + 4 * lanes * std::max(pitch(), n2));
}

template <class T>
HalfPlan<T>::HalfPlan(int64_t n) : half(n / 2) {
  for (int64_t k = 0; k <= half; ++k) {
    const std::complex<double> w = root_of_unity(k, n);
    re.push_back(static_cast<T>(w.real())), im.push_back(static_cast<T>(w.imag()));
  }
}

template <class T>
const FourierFunctions<T>& fourier_functions() {
  if constexpr (std::is_same_v<T, float>)
    return fourier_float();
  else
    return fourier_double();
}

template struct LanePlan<float>;
template struct LanePlan<double>;
template struct FourierPlan<float>;
template struct FourierPlan<double>;
template struct HalfPlan<float>;
template struct HalfPlan<double>;
template const FourierFunctions<float>& fourier_functions<float>();
template const FourierFunctions<double>& fourier_functions<double>();

}  // namespace mpsgraph::cpu
