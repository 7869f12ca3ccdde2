/* Small programs without a C library, so that their traces are short and the same in every run.
   Compile one with -DRUN=<function>. The arrays are visible from outside, since a compiler may replace
   a hidden one that is never written by zeros. */

#ifndef N
#define N 24
#endif
#ifndef LD
#define LD N
#endif

float A[N * LD], B[N * LD], C[N * LD];
char bytes[1 << 15];
unsigned next_of[1 << 12];
struct __attribute__((packed)) record { char tag; double number; int count; };
struct record records[600];

#define ROWS(x) for (int x = 0; x < N; x++)

void naive(void) {
    ROWS(i) ROWS(j) {
        float sum = 0;
        ROWS(k) sum += A[i * LD + k] * B[k * LD + j];
        C[i * LD + j] = sum;
    }
}

void reordered(void) {
    ROWS(i) ROWS(k) {
        float a = A[i * LD + k];
        ROWS(j) C[i * LD + j] += a * B[k * LD + j];
    }
}

void columns(void) {
    ROWS(j) ROWS(k) {
        float b = B[k * LD + j];
        ROWS(i) C[i * LD + j] += A[i * LD + k] * b;
    }
}

void transposed(void) {
    ROWS(i) ROWS(j) {
        float sum = 0;
        ROWS(k) sum += A[i * LD + k] * B[j * LD + k];
        C[i * LD + j] = sum;
    }
}

#ifndef TILE
#define TILE 8
#endif
#define LEAST(x, y) ((x) < (y) ? (x) : (y))

void blocked(void) {
    for (int ib = 0; ib < N; ib += TILE)
        for (int kb = 0; kb < N; kb += TILE)
            for (int jb = 0; jb < N; jb += TILE)
                for (int i = ib; i < LEAST(ib + TILE, N); i++)
                    for (int k = kb; k < LEAST(kb + TILE, N); k++) {
                        float a = A[i * LD + k];
                        for (int j = jb; j < LEAST(jb + TILE, N); j++) C[i * LD + j] += a * B[k * LD + j];
                    }
}

void stencil(void) {
    for (int i = 1; i < N - 1; i++)
        for (int j = 1; j < N - 1; j++)
            C[i * LD + j] = A[i * LD + j] + A[i * LD + j - 1] + A[i * LD + j + 1] + A[(i - 1) * LD + j] + A[(i + 1) * LD + j];
}

void chase(void) {
    unsigned size = 1 << 12, at = 0;
    for (unsigned i = 0; i < size; i++) next_of[i] = (i * 1021 + 7) % size;
    for (unsigned i = 0; i < 3 * size; i++) at = *(volatile unsigned *)&next_of[at];
}

void copy(void) {
    char *to = bytes + (1 << 14);
    for (int i = 0; i < 1 << 14; i++) ((volatile char *)to)[i] = bytes[i];
    long length = 1 << 14;
    char *from = bytes;
    __asm__ volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(length) : : "memory");
}

void strided(void) {
    for (int pass = 0; pass < 4; pass++)
        for (int i = 0; i < 1 << 15; i += 132) ((volatile char *)bytes)[i]++;
}

void straddling(void) {
    for (int pass = 0; pass < 3; pass++)
        for (int i = 0; i < 600; i++) {
            records[i].number += records[(i * 7) % 600].number;
            records[i].count++;
        }
}

void scattered(void) {
    unsigned random = 12345;
    for (int i = 0; i < 6000; i++) {
        random = random * 1664525u + 1013904223u;
        unsigned at = random >> 17;
        if (random & 64) ((volatile char *)bytes)[at] = (char)i;
        else (void)((volatile char *)bytes)[at];
    }
}

void _start(void) {
    RUN();
    __asm__ volatile("syscall" : : "a"(60L), "D"(0L));
    for (;;) {}
}
