// A product of f32 matrices by a BLAS library, as a kernel like those that are emitted: workgroups are rows or columns of y, and each
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
  uint32_t transpose_a, transpose_b;
  uint32_t by_rows; // 1: workgroups are rows of y; 0: its columns
  uint32_t rank; // of what is added; 0: nothing
} product;

// y [m, n] = a [m, k] times b [k, n], plus bias [n], plus u [m, rank] times v [rank, n]; transposed, a lies as [k, m], b as [n, k]
// and v as [n, rank]. Buffers: a, b, y, bias or NULL, u, v.
static void multiply(void *const *buffers, const void *uniforms, const uint32_t grid[3], uint32_t begin, uint32_t end, void *scratch) {
  (void)grid, (void)scratch;
  const product *p = uniforms;
  const uint64_t m = p->m, k = p->k, n = p->n;
  const uint64_t row = p->by_rows ? begin : 0, rows = p->by_rows ? end - begin : m;
  const uint64_t column = p->by_rows ? 0 : begin, columns = p->by_rows ? n : end - begin;
  const float *a = (const float *)buffers[0] + row * (p->transpose_a ? 1 : k);
  const float *b = (const float *)buffers[1] + column * (p->transpose_b ? k : 1), *bias = buffers[3];
  float *y = (float *)buffers[2] + row * n + column;
  for (uint64_t i = 0; bias != NULL && i < rows; i++) memcpy(y + i * n, bias + column, columns * sizeof(float));
  ((sgemm *)(uintptr_t)p->call)(ROW_MAJOR, p->transpose_a ? TRANSPOSED : AS_IT_IS, p->transpose_b ? TRANSPOSED : AS_IT_IS, (int)rows,
    (int)columns, (int)k, 1, a, (int)(p->transpose_a ? m : k), b, (int)(p->transpose_b ? k : n), bias == NULL ? 0 : 1, y, (int)n);
  if (p->rank == 0) return;
  const float *u = (const float *)buffers[4] + row * p->rank, *v = (const float *)buffers[5] + column * (p->transpose_b ? p->rank : 1);
  ((sgemm *)(uintptr_t)p->call)(ROW_MAJOR, AS_IT_IS, p->transpose_b ? TRANSPOSED : AS_IT_IS, (int)rows, (int)columns, (int)p->rank, 1, u,
    (int)p->rank, v, (int)(p->transpose_b ? p->rank : n), 1, y, (int)n);
}

#endif
