// Unchecked mode (INGOT_SOFT_METAL_CHECK=0): address spaces vanish and pointers are plain. The counterpart of pointer.h.
#pragma once
#include "types.h"

namespace metal {
template <class T> struct atomic { T value; };
}

namespace sm {

constexpr int kDevice = 0, kThreadgroup = 1;
template <class T, int S> using ptr = T*;
template <class T, int S> using Reference = T&;
template <class To, class From> inline To recast(From from) { return (To)(from); }

}  // namespace sm
