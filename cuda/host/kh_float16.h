// Bit patterns of the two 16-bit formats: binary16 ("half") and bfloat16. Everything goes through double, which holds
// each of their values and each product of two exactly, so that a result is rounded once.
#pragma once

#include <cmath>
#include <cstdint>

namespace kh16 {

struct Half { static constexpr int kPrecision = 11, kLeast = -14, kMost = 15; };  // bits of the significand; exponents
struct Bfloat { static constexpr int kPrecision = 8, kLeast = -126, kMost = 127; };

enum Rounding { kNearest, kZero, kUp, kDown };
constexpr std::uint16_t kNan = 0x7fff;  // the one that the GPU's conversions and arithmetic give

template <class To, class From>
inline __attribute__((always_inline)) To bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    __builtin_memcpy(&to, &from, sizeof(To));
    return to;
}

template <class F>
inline std::uint16_t narrow(double value, Rounding rounding = kNearest) {
    const auto whole = bits<std::uint64_t>(value);
    const auto sign = static_cast<std::uint16_t>(whole >> 48 & 0x8000);
    const int field = static_cast<int>(whole >> 52 & 0x7ff);
    constexpr std::uint32_t infinity = (std::uint32_t{1} << 15) - (1u << (F::kPrecision - 1));
    if (value != value) return kNan;
    if (field == 0x7ff) return static_cast<std::uint16_t>(sign | infinity);
    if ((whole << 1) == 0) return sign;
    const bool outward = rounding == kUp ? !sign : rounding == kDown && sign;
    const int exponent = field ? field - 1023 : -1022;
    if (exponent > F::kMost) {
        return static_cast<std::uint16_t>(sign | (rounding == kNearest || outward ? infinity : infinity - 1));
    }
    const std::uint64_t significand = (whole & 0xfffffffffffffull) | (field ? std::uint64_t{1} << 52 : 0);
    const int lowest = exponent < F::kLeast ? F::kLeast : exponent;
    int shift = lowest - (F::kPrecision - 1) - (exponent - 52);
    if (shift > 60) shift = 60;  // nothing but a sticky bit is left
    std::uint64_t kept = significand >> shift;
    const std::uint64_t rest = significand & ((std::uint64_t{1} << shift) - 1), half = std::uint64_t{1} << (shift - 1);
    if (rounding == kNearest ? rest > half || (rest == half && (kept & 1)) : outward && rest) ++kept;
    const std::uint32_t result =
        (static_cast<std::uint32_t>(lowest - F::kLeast) << (F::kPrecision - 1)) + static_cast<std::uint32_t>(kept);
    if (result >= infinity && !(rounding == kNearest || outward)) return static_cast<std::uint16_t>(sign | (infinity - 1));
    return static_cast<std::uint16_t>(sign | result);
}

template <class F>
inline float widen(std::uint16_t pattern) {
    if constexpr (F::kPrecision == 8) return bits<float>(static_cast<std::uint32_t>(pattern) << 16);
    const std::uint32_t sign = (pattern & 0x8000u) << 16, field = pattern >> 10 & 31, fraction = pattern & 0x3ff;
    if (field == 0) {
        const float small = static_cast<float>(fraction) * 0x1p-24f;
        return sign ? -small : small;
    }
    return bits<float>(sign | (field == 31 ? 0xffu : field + 112) << 23 | fraction << 13);
}

// The sum rounded to odd: rounding it again, to a shorter format, gives what one rounding of the exact sum gives.
inline double sum_to_odd(double a, double b) {
    const double sum = a + b, back = sum - a, lost = (a - (sum - back)) + (b - back);
    auto pattern = bits<std::uint64_t>(sum);
    if (lost == 0 || lost != lost || (pattern & 1)) return sum;
    (lost > 0) == (sum > 0) ? ++pattern : --pattern;
    return bits<double>(pattern);
}

template <class F>
inline std::uint16_t fused(double a, double b, double c) {  // a * b is exact
    return narrow<F>(sum_to_odd(a * b, c));
}

template <class T>
inline double from_integer(T value) {
    if constexpr (sizeof(T) < 8) {
        return static_cast<double>(value);
    } else {
        const auto low = static_cast<double>(static_cast<std::uint32_t>(value));
        return sum_to_odd(static_cast<double>(static_cast<std::int64_t>(value >> 32)) * 0x1p32, low);
    }
}

template <class T>
inline T to_integer(double value, Rounding rounding) {
    constexpr T least = static_cast<T>(static_cast<T>(-1) < 0 ? T(1) << (8 * sizeof(T) - 1) : 0);
    constexpr T most = static_cast<T>(~least);
    if (value != value) return sizeof(T) == 8 ? static_cast<T>(std::uint64_t{1} << 63) : T(0);
    switch (rounding) {
        case kNearest: value = std::nearbyint(value); break;
        case kZero: value = std::trunc(value); break;
        case kUp: value = std::ceil(value); break;
        case kDown: value = std::floor(value); break;
    }
    if (value <= static_cast<double>(least)) return least;
    if (value >= static_cast<double>(most)) return most;
    return static_cast<T>(value);
}

}  // namespace kh16
