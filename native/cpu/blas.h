// A product of f32 matrices by a BLAS library, as a kernel like those that are emitted: workgroups are rows of x or of w, and each
// run of them is one call of the library. Does not know which library it is.
#ifndef INGOT_BLAS_H
#define INGOT_BLAS_H

#include <stdint.h>
#include <string.h>

// The C interface of every BLAS.
typedef void sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
  const float *b, int ldb, float beta, float *c, int ldc);
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TRANSPOSED = 112 };

// src/device/cpu/native/product.ts writes it.
typedef struct {
  uint64_t call; // sgemm *
  uint32_t m, k, n;
  uint32_t by_rows; // 1: workgroups are rows of x and y; 0: rows of w, which are columns of y
} product;

// y [n, m] = x [n, k] times w [m, k] transposed, plus bias [m]. Buffers: x, w, y, bias or NULL.
static void multiply(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch) {
  (void)grid, (void)scratch;
  const product *p = uniforms;
  const uint64_t m = p->m, k = p->k;
  const uint64_t row = p->by_rows ? begin : 0, rows = p->by_rows ? end - begin : p->n;
  const uint64_t column = p->by_rows ? 0 : begin, columns = p->by_rows ? m : end - begin;
  const float *x = (const float *)buffers[0] + row * k, *w = (const float *)buffers[1] + column * k, *bias = buffers[3];
  float *y = (float *)buffers[2] + row * m + column;
  for (uint64_t i = 0; bias != NULL && i < rows; i++) memcpy(y + i * m, bias + column, columns * sizeof(float));
  ((sgemm *)(uintptr_t)p->call)(ROW_MAJOR, AS_IT_IS, TRANSPOSED, (int)rows, (int)columns, (int)k, 1, x, (int)k, w, (int)k, bias == NULL ? 0 : 1, y, (int)m);
}

#endif
