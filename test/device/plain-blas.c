// The least that can be called a BLAS, for tests. -DCONFIG="..." with -DPARALLEL=N makes it speak like OpenBLAS, -DWRONG makes it give 0.
#include <stdlib.h>

#ifdef CONFIG
static int threads = 8;
const char *openblas_get_config(void) { return CONFIG; }
int openblas_get_parallel(void) { return PARALLEL; }
void openblas_set_num_threads(int count) { threads = count; }
#endif

// Row-major, as Ingot asks for it. Anything else ends the process.
void cblas_sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha, const float *a, int lda,
                 const float *b, int ldb, float beta, float *c, int ldc) {
  const int turned_a = transpose_a == 112, turned_b = transpose_b == 112;
  if (order != 101 || (transpose_a != 111 && !turned_a) || (transpose_b != 111 && !turned_b)) abort();
  if (m < 1 || n < 1 || k < 1 || lda < (turned_a ? m : k) || ldb < (turned_b ? k : n) || ldc < n) abort();
#if defined(CONFIG) && PARALLEL == 1
  if (threads != 1) abort();
#endif
  for (int i = 0; i < m; i++) {
    for (int j = 0; j < n; j++) {
      float sum = 0;
      for (int l = 0; l < k; l++)
        sum += a[turned_a ? (size_t)l * lda + i : (size_t)i * lda + l] * b[turned_b ? (size_t)j * ldb + l : (size_t)l * ldb + j];
      float *to = &c[(size_t)i * ldc + j];
#ifdef WRONG
      *to = 0;
#else
      *to = alpha * sum + (beta == 0 ? 0 : beta * *to);
#endif
    }
  }
}
