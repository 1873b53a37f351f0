/* Scan and align blocks of text, and align rows: the same answer as numpy gives, in one pass.

Plain C without anything of Python's: ctypes loads it and lets other threads run meanwhile. A block is a piece of a run
that holds whole queries. Whatever is not plain (blank lines, comments, control bytes, a wrong number of columns, odd
numbers, docs that come twice, queries that stand apart) makes align_block return HAND_BACK: the caller then gives the
whole block to numpy, which alone says what such a block means. Nothing is kept between calls.

Layout of the data, in every function: a string is text[start[i]:end[i]], and PAD bytes before and after the text may be
read. Memory beyond that is never touched. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are loaded in little-endian order"
#endif
#ifdef _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

#define ALWAYS inline __attribute__((always_inline))
#define NEVER __attribute__((noinline))

enum { DONE = 0, HAND_BACK = 1 };
enum { PAD = 32, WINDOW = 64, MOST_COLUMNS = 64, FIRST_SLOTS = 4096, MOST_COUNTS = 64, MOST_PROBES = 16, LONGEST_KEY = 128 };

typedef struct { /* the columns of a row, counted from 0 */
    int64_t width, query, doc, value;
    int64_t longest_id; /* bytes */
    int64_t narrow;     /* whether scores are compared as 32-bit numbers */
} Layout;

typedef struct { /* strings, and room for their hashes */
    const uint8_t *text;
    const int64_t *start, *end;
    int64_t count;
    uint64_t *hash;
} Ids;

typedef struct {
    Ids queries, docs;
    const int64_t *offsets; /* the docs of query q are offsets[q] to offsets[q + 1] */
    int32_t *slots;         /* a query's number + 1 at its hash, or the next free place; 0 is free */
    int64_t slot_mask;
    int32_t *pairs; /* the same for judged docs, by query and doc; NULL where rows come by query */
    int64_t pair_mask;
    uint64_t salt; /* of the keys of rows */
} Gold;

typedef struct { /* what the block holds; each array has room for as many entries as the block can have rows */
    int64_t *query, *returned;             /* queries of the gold, and the docs returned for each */
    int64_t *gold, *rank;                  /* judged docs in the order of their rows */
    int64_t *without_start, *without_end;  /* ids of queries that the gold lacks */
    int64_t queries, hits, without, ascending, level;
    int64_t high; /* whether a byte is above 127: the caller checks that the block is UTF-8 */
} Result;

typedef struct { /* the rows of a block in any order, of queries of the gold; room as in a result */
    int64_t *query, *start, *end, *gold; /* the number of the query, where the doc's id lies, its judgment or -1 */
    int64_t *without_start, *without_end; /* ids of queries that the gold lacks, of each row */
    uint64_t *key; /* NULL where neither keys nor judgments are asked for */
    double *score;
    int64_t count, without;
} Columns;

typedef struct { /* the rows of one query */
    uint64_t *hash;
    double *score;
    uint32_t *start, *length; /* of the doc's id */
    int64_t count;
} Rows;

typedef struct { /* the rows of a query by the hash of their docs; entries below `base` are of earlier queries */
    uint32_t *row;
    uint64_t mask;
    uint32_t base;
    int64_t budget; /* places that may be looked at in vain; ids that were made to collide use it up */
} Table;

typedef struct {
    int64_t row, gold;
} Hit;

static inline uint64_t load(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

static inline uint64_t first_bytes(const uint8_t *p, uint64_t count) { /* 1 to 8, and zeros before them */
    return load(p) << (64 - 8 * count);
}

/* Hashes and comparisons of ids. */

static inline uint64_t mixed(uint64_t a, uint64_t b) {
    unsigned __int128 product = (unsigned __int128)(a ^ UINT64_C(0x9E3779B97F4A7C15)) * (b ^ UINT64_C(0xD6E8FEB86659FD93));
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static NEVER uint64_t hash_any(const uint8_t *id, uint64_t length) {
    uint64_t hash = length;
    for (; length > 16; id += 16, length -= 16)
        hash = mixed(load(id) + hash, load(id + 8));
    if (length > 8)
        return mixed(load(id) + hash, first_bytes(id + 8, length - 8));
    return length ? mixed(first_bytes(id, length) + hash, hash) : hash;
}

static ALWAYS uint64_t hash_of(const uint8_t *id, uint64_t length) {
    return length - 1 < 8 ? mixed(first_bytes(id, length) + length, length) : hash_any(id, length);
}

static inline int same(const uint8_t *a, const uint8_t *b, uint64_t length) {
    if (length - 1 < 8)
        return first_bytes(a, length) == first_bytes(b, length);
    return memcmp(a, b, length) == 0;
}

static int greater(const uint8_t *a, uint64_t a_length, const uint8_t *b, uint64_t b_length) {
    int order = memcmp(a, b, a_length < b_length ? a_length : b_length);
    return order > 0 || (order == 0 && a_length > b_length);
}

/* Numbers: exactly the double that is nearest to the decimal, or HAND_BACK. */

static const double TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                              1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const uint64_t ZEROS = UINT64_C(0x3030303030303030), ONES = UINT64_C(0x0101010101010101);
static const uint64_t TOPS = UINT64_C(0x8080808080808080), PAST_NINE = UINT64_C(0x7676767676767676);
static const uint64_t EXACT = UINT64_C(1) << 53;

static inline uint64_t eight_digits(uint64_t word) { /* bytes of 0 to 9, the first the most significant */
    word = (word * 2561) >> 8 & UINT64_C(0x00FF00FF00FF00FF);
    word = (word * 6553601) >> 16 & UINT64_C(0x0000FFFF0000FFFF);
    return (word * UINT64_C(42949672960001)) >> 32;
}

static double divide(uint64_t digits, int tens) { /* digits / 10^tens, rounded once; up to 27 tens, digits above 0 */
    uint64_t five = 1;
    for (int i = 0; i < tens; i++)
        five *= 5;
    int shift = __builtin_clzll(digits);
    unsigned __int128 dividend = (unsigned __int128)(digits << shift) << 64, quotient = dividend / five;
    int sticky = dividend % five != 0;
    uint64_t top = (uint64_t)(quotient >> 64);
    int extra = top ? 64 - __builtin_clzll(top) : 0; /* bits beyond 64 */
    if (extra) {
        sticky |= (uint64_t)quotient << (64 - extra) != 0;
        quotient >>= extra;
    }
    double value = (double)((uint64_t)quotient | (uint64_t)sticky); /* more than 55 bits: the last one only breaks ties */
    for (int power = 64 + shift + tens - extra; power > 0; power -= 30)
        value /= (double)(UINT64_C(1) << (power < 30 ? power : 30));
    return value;
}

static int is_digit(uint8_t byte) {
    return byte >= '0' && byte <= '9';
}

static int parse_any(const uint8_t *at, const uint8_t *end, double *value) {
    int negative = *at == '-', exponent = 0, places = 0, size = 0, point = 0, any = 0;
    uint64_t digits = 0;
    at += negative || *at == '+';
    for (; at < end && (is_digit(*at) || (*at == '.' && !point)); at++) {
        if (*at == '.') {
            point = 1;
            continue;
        }
        any = 1;
        size += size > 0 || *at != '0';
        places += point;
        if (size > 19 || places > 1000)
            return HAND_BACK;
        digits = digits * 10 + (*at - '0');
    }
    if (!any)
        return HAND_BACK;
    if (at < end) {
        if (*at != 'e' && *at != 'E')
            return HAND_BACK;
        int down = ++at < end && *at == '-';
        at += at < end && (*at == '-' || *at == '+');
        if (at == end || end - at > 4)
            return HAND_BACK;
        for (; at < end; at++) {
            if (!is_digit(*at))
                return HAND_BACK;
            exponent = exponent * 10 + (*at - '0');
        }
        exponent = down ? -exponent : exponent;
    }
    exponent -= places;
    if (digits == 0)
        *value = 0.0;
    else if (digits <= EXACT && exponent >= -22 && exponent <= 22)
        *value = exponent < 0 ? (double)digits / TENS[-exponent] : (double)digits * TENS[exponent];
    else if (exponent == 0)
        *value = (double)digits;
    else if (exponent < 0 && exponent >= -27)
        *value = divide(digits, -exponent);
    else
        return HAND_BACK;
    if (negative)
        *value = -*value;
    return DONE;
}

static ALWAYS uint64_t find_dots(uint64_t word) { /* the top bit of the first dot's byte; later ones may be wrong */
    word ^= ONES * ('.' ^ '0');
    return (word - ONES) & ~word & TOPS;
}

static ALWAYS uint64_t not_digits(uint64_t word) {
    return ((word + PAST_NINE) | word) & TOPS;
}

static ALWAYS uint64_t close_gap(uint64_t word, int below) { /* move the bytes before the dot up by one, over it */
    return (word >> below >> 8) << below << 8 | (word & ((UINT64_C(1) << below) - 1)) << 8;
}

/* Decimals of up to 16 characters, eight at a time. */
static NEVER int parse_words(const uint8_t *start, const uint8_t *end, double *value) {
    int negative = *start == '-', places = 0;
    int64_t length = end - start - negative;
    if (length < 2 || length > 16)
        return parse_any(start, end, value);
    uint64_t last = load(end - 8) ^ ZEROS, first = load(end - 16) ^ ZEROS;
    if (length <= 8) {
        last &= ~UINT64_C(0) << (64 - 8 * length);
        first = 0;
    } else
        first &= ~UINT64_C(0) << (128 - 8 * length);
    uint64_t dots = find_dots(last);
    if (dots) {
        int below = __builtin_ctzll(dots) & 56;
        places = 7 - below / 8;
        last = close_gap(last, below) | first >> 56;
        first <<= 8;
    } else if ((dots = find_dots(first)) != 0) {
        int below = __builtin_ctzll(dots) & 56;
        places = 15 - below / 8;
        first = close_gap(first, below);
    }
    uint64_t digits = eight_digits(last) + eight_digits(first) * 100000000;
    if ((not_digits(last) | not_digits(first)) != 0 || digits > EXACT)
        return parse_any(start, end, value);
    *value = (double)(int64_t)digits / TENS[places];
    if (negative)
        *value = -*value;
    return DONE;
}

typedef int Parse(const uint8_t *start, const uint8_t *end, double *value);

/* The most common decimals: a dot, up to eight digits, no sign. */
static ALWAYS int parse_eight(const uint8_t *start, const uint8_t *end, double *value) {
    uint64_t length = (uint64_t)(end - start), last = load(end - 8), before = end[-9];
    last ^= ZEROS;
    if (length <= 8)
        last &= ~UINT64_C(0) << (64 - 8 * length);
    uint64_t dots = find_dots(last);
    int below = __builtin_ctzll(dots | UINT64_C(1) << 63) & 56;
    last = close_gap(last, below) | (length == 9 ? before ^ '0' : 0);
    if (dots == 0 || not_digits(last) != 0 || length - 2 > 7)
        return parse_words(start, end, value);
    *value = (double)(int64_t)eight_digits(last) / TENS[7 - below / 8];
    return DONE;
}

#ifdef __SSE2__
#define AVX2 __attribute__((target("avx2,bmi,bmi2")))

/* How bytes move up by one over the dot, by its place among 16; 16 is none. */
#define MOVE(dot, i) (dot) == 16 || (i) > (dot) ? (i) : (i) ? (i) - 1 : 128
#define MOVES(dot)                                                                                                     \
    {MOVE(dot, 0), MOVE(dot, 1), MOVE(dot, 2),  MOVE(dot, 3),  MOVE(dot, 4),  MOVE(dot, 5),  MOVE(dot, 6),  MOVE(dot, 7), \
     MOVE(dot, 8), MOVE(dot, 9), MOVE(dot, 10), MOVE(dot, 11), MOVE(dot, 12), MOVE(dot, 13), MOVE(dot, 14), MOVE(dot, 15)}
static const uint8_t OVER_DOT[17][16] = {MOVES(0),  MOVES(1),  MOVES(2),  MOVES(3),  MOVES(4),  MOVES(5),
                                         MOVES(6),  MOVES(7),  MOVES(8),  MOVES(9),  MOVES(10), MOVES(11),
                                         MOVES(12), MOVES(13), MOVES(14), MOVES(15), MOVES(16)};
static const double TENS_AFTER[17] = {1e15, 1e14, 1e13, 1e12, 1e11, 1e10, 1e9, 1e8, 1e7,
                                      1e6,  1e5,  1e4,  1e3,  1e2,  1e1,  1e0, 1e0};
static const uint8_t LAST_BYTES[32] = {[16] = 255, 255, 255, 255, 255, 255, 255, 255,
                                       255, 255, 255, 255, 255, 255, 255, 255};

/* Decimals of up to 15 characters without a sign, sixteen bytes at once. */
AVX2 static ALWAYS int parse_sixteen(const uint8_t *start, const uint8_t *end, double *value) {
    uint64_t length = (uint64_t)(end - start), digits;
    if (length - 2 > 13)
        return parse_any(start, end, value);
    __m128i bytes = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(end - 16)), _mm_set1_epi8('0'));
    bytes = _mm_and_si128(bytes, _mm_loadu_si128((const __m128i *)(LAST_BYTES + length)));
    uint32_t dots = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('.' ^ '0')));
    int dot = __builtin_ctz(dots | 1 << 16);
    bytes = _mm_shuffle_epi8(bytes, _mm_loadu_si128((const __m128i *)OVER_DOT[dot]));
    __m128i odd = _mm_subs_epu8(bytes, _mm_set1_epi8(9));
    if (!_mm_testz_si128(odd, odd))
        return parse_words(start, end, value);
    bytes = _mm_maddubs_epi16(bytes, _mm_set1_epi16(0x010A));       /* pairs of digits */
    bytes = _mm_madd_epi16(bytes, _mm_set1_epi32(0x00010064));      /* fours */
    bytes = _mm_packus_epi32(bytes, bytes);
    bytes = _mm_madd_epi16(bytes, _mm_set1_epi32(0x00012710));      /* eights */
    digits = (uint64_t)_mm_cvtsi128_si64(bytes);
    digits = (digits & UINT32_MAX) * 100000000 + (digits >> 32);
    *value = (double)(int64_t)digits / TENS_AFTER[dot];
    return DONE;
}
#endif

/* Lines: where the fields of a row lie. */

typedef struct { /* 64 bytes from the start of a line, a bit for each */
    uint64_t ends, newline; /* spaces, tabs and newlines; newlines alone */
    uint64_t odd;           /* other bytes up to the space, anywhere in the window */
    uint64_t high;          /* bytes above 127 */
} Window;

typedef struct { /* where the fields of a line lie, from its start */
    uint32_t start[MOST_COLUMNS], end[MOST_COLUMNS];
    uint64_t size; /* of the line with its newline */
} Fields;

#ifdef __SSE2__
static inline Window look_sse2(const uint8_t *at) {
    const __m128i space = _mm_set1_epi8(' '), tab = _mm_set1_epi8('\t'), end = _mm_set1_epi8('\n');
    __m128i all = _mm_setzero_si128(), odd = all;
    Window window = {0, 0, 0, 0};
    for (int i = 0; i < WINDOW; i += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(at + i)), newline = _mm_cmpeq_epi8(bytes, end);
        __m128i blank = _mm_or_si128(_mm_cmpeq_epi8(bytes, space), _mm_cmpeq_epi8(bytes, tab));
        __m128i ends = _mm_or_si128(blank, newline), low = _mm_cmpeq_epi8(_mm_min_epu8(bytes, space), bytes);
        odd = _mm_or_si128(odd, _mm_xor_si128(low, ends));
        all = _mm_or_si128(all, bytes);
        window.ends |= (uint64_t)(uint32_t)_mm_movemask_epi8(ends) << i;
        window.newline |= (uint64_t)(uint32_t)_mm_movemask_epi8(newline) << i;
    }
    window.odd = (uint64_t)(uint32_t)_mm_movemask_epi8(odd);
    window.high = (uint64_t)(uint32_t)_mm_movemask_epi8(all);
    return window;
}

AVX2 static ALWAYS Window look_avx2(const uint8_t *at) {
    const __m256i space = _mm256_set1_epi8(' '), end = _mm256_set1_epi8('\n');
    const __m256i known = _mm256_broadcastsi128_si256( /* the space, the tab and the newline by their last four bits */
        _mm_setr_epi8(' ', -1, -1, -1, -1, -1, -1, -1, -1, '\t', '\n', -1, -1, -1, -1, -1));
    __m256i all = _mm256_setzero_si256(), odd = all;
    Window window = {0, 0, 0, 0};
    for (int i = 0; i < WINDOW; i += 32) {
        __m256i bytes = _mm256_loadu_si256((const __m256i *)(at + i)), newline = _mm256_cmpeq_epi8(bytes, end);
        __m256i ends = _mm256_cmpeq_epi8(_mm256_shuffle_epi8(known, bytes), bytes);
        __m256i low = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, space), bytes);
        odd = _mm256_or_si256(odd, _mm256_xor_si256(low, ends));
        all = _mm256_or_si256(all, bytes);
        window.ends |= (uint64_t)(uint32_t)_mm256_movemask_epi8(ends) << i;
        window.newline |= (uint64_t)(uint32_t)_mm256_movemask_epi8(newline) << i;
    }
    window.odd = (uint64_t)(uint32_t)_mm256_movemask_epi8(odd);
    window.high = (uint64_t)(uint32_t)_mm256_movemask_epi8(all);
    return window;
}
#else
static inline uint64_t equal_bytes(uint64_t word, uint64_t other) { /* the top bit of each byte that is the same */
    word ^= other;
    return ~(((word & ~TOPS) + ~TOPS) | word) & TOPS;
}

static inline uint64_t top_bits(uint64_t word) {
    return (word >> 7) * UINT64_C(0x0102040810204080) >> 56;
}

static inline Window look_words(const uint8_t *at) {
    Window window = {0, 0, 0, 0};
    for (int i = 0; i < WINDOW; i += 8) {
        uint64_t bytes = load(at + i), newline = equal_bytes(bytes, ONES * '\n');
        uint64_t ends = equal_bytes(bytes, ONES * ' ') | equal_bytes(bytes, ONES * '\t') | newline;
        uint64_t above = ((bytes & ~TOPS) + ONES * (0x7F - ' ')) | bytes;
        window.ends |= top_bits(ends) << i;
        window.newline |= top_bits(newline) << i;
        window.odd |= ~above & TOPS & ~ends;
        window.high |= bytes & TOPS;
    }
    return window;
}
#endif

/* A row of up to 64 bytes with one space or tab between its fields; 0 if this line is none. */
static ALWAYS int cut_plain(Window window, const int64_t width, Fields *fields) {
    uint64_t newline = window.newline & (0 - window.newline), marks = window.ends & (newline | (newline - 1));
    uint64_t odd = window.odd | (marks & (marks << 1 | 1)), rest = marks;
    for (int64_t i = 0; i < width - 1; i++)
        rest &= rest - 1;
    if ((odd | (rest ^ newline)) != 0 || newline == 0) /* the mark that is left ends the line */
        return 0;
    fields->start[0] = 0;
    for (int64_t i = 0; i < width - 1; i++) {
        fields->end[i] = (uint32_t)__builtin_ctzll(marks);
        fields->start[i + 1] = fields->end[i] + 1;
        marks &= marks - 1;
    }
    fields->end[width - 1] = (uint32_t)__builtin_ctzll(newline);
    fields->size = fields->end[width - 1] + 1;
    return 1;
}

/* Any row: runs of white space between fields. */
static NEVER int cut_any(const uint8_t *line, const uint8_t *end, int64_t width, Fields *fields, uint64_t *high) {
    const uint8_t *at = line;
    int64_t count = 0;
    for (; at < end && *at != '\n'; at++) {
        if (*at > ' ') {
            if (count == width)
                return 0;
            fields->start[count] = (uint32_t)(at - line);
            for (; *at > ' '; at++) /* ends at the newline that is the last byte of the block */
                *high |= *at & 128;
            fields->end[count++] = (uint32_t)(at - line);
            if (*at == '\n')
                break;
        }
        if (*at != ' ' && (*at < '\t' || *at > '\r'))
            return 0;
    }
    fields->size = (uint64_t)(at - line) + 1;
    return count == width;
}

/* Queries. */

static int64_t find_query(const Gold *gold, const uint8_t *id, uint64_t length) {
    uint64_t hash = hash_of(id, length);
    for (uint64_t at = hash & (uint64_t)gold->slot_mask; gold->slots[at]; at = (at + 1) & (uint64_t)gold->slot_mask) {
        int64_t q = gold->slots[at] - 1, start = gold->queries.start[q];
        if (gold->queries.hash[q] == hash && (uint64_t)(gold->queries.end[q] - start) == length &&
            same(gold->queries.text + start, id, length))
            return q;
    }
    return -1;
}

static ALWAYS uint64_t pair_hash(uint64_t doc, int64_t query) {
    return mixed(doc, (uint64_t)query);
}

/* The judgment of a doc; -1 if there is none. */
static ALWAYS int64_t find_pair(const Gold *gold, int64_t query, const uint8_t *doc, uint64_t length) {
    uint64_t hash = hash_of(doc, length), mask = (uint64_t)gold->pair_mask;
    for (uint64_t at = pair_hash(hash, query) & mask; gold->pairs[at]; at = (at + 1) & mask) {
        int64_t g = gold->pairs[at] - 1, start = gold->docs.start[g];
        if (gold->docs.hash[g] == hash && g >= gold->offsets[query] && g < gold->offsets[query + 1] &&
            (uint64_t)(gold->docs.end[g] - start) == length && same(gold->docs.text + start, doc, length))
            return g;
    }
    return -1;
}

/* The key of a row, as numpy computes it from words of eight bytes; for docs of at most LONGEST_KEY bytes. */
static ALWAYS uint64_t key_of(const uint8_t *doc, uint64_t length, uint64_t salt) {
    static const uint64_t mix[] = {UINT64_C(0x9E3779B97F4A7C15), UINT64_C(0xBF58476D1CE4E5B9),
                                   UINT64_C(0x94D049BB133111EB)};
    uint64_t key = 0, word;
    for (uint64_t i = 0, rest = length; rest > 0; i++, rest -= rest < 8 ? rest : 8) {
        word = load(doc + 8 * i) & (rest < 8 ? (UINT64_C(1) << 8 * rest) - 1 : ~UINT64_C(0));
        if (i == 0)
            key = (word * mix[0]) ^ (salt * mix[1]);
        else
            key += (word ^ word >> 31) * (mix[i % 2 + 1] + 2 * i);
    }
    key = (key ^ key >> 32) * mix[1];
    return (key ^ key >> 29) * mix[2];
}

/* Fill in the hashes and the slots, of which there are more than queries and which are 0; pairs likewise. */
EXPORT void index_gold(Gold *gold) {
    for (int64_t i = 0; i < gold->docs.count; i++)
        gold->docs.hash[i] =
            hash_of(gold->docs.text + gold->docs.start[i], (uint64_t)(gold->docs.end[i] - gold->docs.start[i]));
    for (int64_t q = 0; q < gold->queries.count; q++) {
        int64_t start = gold->queries.start[q];
        uint64_t hash = hash_of(gold->queries.text + start, (uint64_t)(gold->queries.end[q] - start));
        uint64_t at = hash & (uint64_t)gold->slot_mask;
        while (gold->slots[at])
            at = (at + 1) & (uint64_t)gold->slot_mask;
        gold->slots[at] = (int32_t)(q + 1);
        gold->queries.hash[q] = hash;
        for (int64_t g = gold->offsets[q]; gold->pairs != NULL && g < gold->offsets[q + 1]; g++) {
            uint64_t place = pair_hash(gold->docs.hash[g], q) & (uint64_t)gold->pair_mask;
            while (gold->pairs[place])
                place = (place + 1) & (uint64_t)gold->pair_mask;
            gold->pairs[place] = (int32_t)(g + 1);
        }
    }
}

static int widen(Table *table, const Rows *rows) {
    uint64_t size = (table->mask + 1) * 2;
    uint32_t *row = calloc(size, sizeof *row);
    if (row == NULL)
        return HAND_BACK;
    free(table->row);
    table->row = row;
    table->mask = size - 1;
    for (int64_t i = 0; i < rows->count; i++) {
        uint64_t at = rows->hash[i] & table->mask;
        for (; row[at]; at = (at + 1) & table->mask)
            if (--table->budget < 0)
                return HAND_BACK;
        row[at] = table->base + (uint32_t)i;
    }
    return DONE;
}

static int by_row(const void *a, const void *b) {
    int64_t left = ((const Hit *)a)->row, right = ((const Hit *)b)->row;
    return (left > right) - (left < right);
}

/* The place of a row in the order of score and id, counted from 1. */
static int64_t count_rank(const uint8_t *text, const Rows *rows, int64_t row) {
    double score = rows->score[row];
    int64_t rank = 1, ties = 0;
    for (int64_t i = 0; i < rows->count; i++) {
        rank += rows->score[i] > score;
        ties += rows->score[i] == score;
    }
    for (int64_t i = 0; ties > 1 && i < rows->count; i++)
        rank += rows->score[i] == score &&
                greater(text + rows->start[i], rows->length[i], text + rows->start[row], rows->length[row]);
    return rank;
}

/* Look the judged docs of a query up among its rows. */
static int find_docs(const uint8_t *text, const Gold *gold, int64_t query, const Rows *rows, Table *table, int sorted,
                     Hit *hit, Result *result) {
    int64_t hits = 0;
    for (int64_t g = gold->offsets[query]; g < gold->offsets[query + 1]; g++) {
        uint64_t hash = gold->docs.hash[g], length = (uint64_t)(gold->docs.end[g] - gold->docs.start[g]);
        const uint8_t *doc = gold->docs.text + gold->docs.start[g];
        for (uint64_t at = hash & table->mask; table->row[at] >= table->base; at = (at + 1) & table->mask) {
            int64_t row = table->row[at] - table->base;
            if (rows->hash[row] == hash && rows->length[row] == length &&
                memcmp(text + rows->start[row], doc, length) == 0) {
                if (hits == rows->count)
                    return HAND_BACK; /* gold that names a doc twice */
                hit[hits++] = (Hit){row, g};
                break;
            }
            if (--table->budget < 0)
                return HAND_BACK;
        }
    }
    if (!sorted && hits > MOST_COUNTS)
        return HAND_BACK; /* sorting is cheaper */
    if (hits > 1)
        qsort(hit, (size_t)hits, sizeof *hit, by_row);
    for (int64_t i = 0; i < hits; i++) {
        result->gold[result->hits] = hit[i].gold;
        result->rank[result->hits++] = sorted ? hit[i].row + 1 : count_rank(text, rows, hit[i].row);
    }
    return DONE;
}

/* Blocks. */

typedef struct { /* one query while its rows are read */
    int64_t number; /* in the gold; -1 if that lacks it */
    const uint8_t *id;
    uint64_t length;
    int64_t rising, tied; /* steps from a row to the next */
    int falling, sorted;
} Query;

typedef struct {
    const uint8_t *text, *names; /* where the ids of docs and of queries are */
    int64_t size, begin, end;
    const Layout *layout;
    const Gold *gold;
    Result *result;
    Columns *columns; /* instead of a result, where rows come in any order */
    Rows rows;
    Table table;
    Hit *hit;
    uint8_t *seen; /* a bit for each query of the gold */
    Query query;
    int64_t rising, judged;
    uint64_t high;
} Block;

static int make_room(Block *block, size_t most) {
    block->rows.hash = malloc(most * sizeof *block->rows.hash);
    block->rows.score = malloc(most * sizeof *block->rows.score);
    block->rows.start = malloc(most * sizeof *block->rows.start);
    block->rows.length = malloc(most * sizeof *block->rows.length);
    block->hit = malloc(most * sizeof *block->hit);
    block->seen = calloc((size_t)block->gold->queries.count / 8 + 1, 1);
    block->table.row = calloc(FIRST_SLOTS, sizeof *block->table.row);
    block->table.mask = FIRST_SLOTS - 1;
    block->table.base = 1;
    block->table.budget = (int64_t)most * MOST_PROBES;
    int there = block->rows.hash && block->rows.score && block->rows.start && block->rows.length && block->hit &&
                block->seen && block->table.row;
    return there ? DONE : HAND_BACK;
}

static void free_room(Block *block) {
    free(block->rows.hash);
    free(block->rows.score);
    free(block->rows.start);
    free(block->rows.length);
    free(block->hit);
    free(block->seen);
    free(block->table.row);
}

static int end_query(Block *block) {
    Query *query = &block->query;
    Rows *rows = &block->rows;
    Result *result = block->result;
    if (query->number < 0)
        return DONE;
    result->query[result->queries] = query->number;
    result->returned[result->queries++] = rows->count;
    result->ascending += query->rising > 0 && !query->falling;
    result->level += query->tied > 0 && query->tied == rows->count - 1;
    block->rising += query->rising;
    block->judged += rows->count;
    if (find_docs(block->text, block->gold, query->number, rows, &block->table, query->sorted, block->hit, result))
        return HAND_BACK;
    block->table.base += (uint32_t)rows->count;
    rows->count = 0;
    return DONE;
}

static NEVER int next_query(Block *block, const uint8_t *id, uint64_t length) {
    Result *result = block->result;
    if (end_query(block))
        return HAND_BACK;
    int64_t number = find_query(block->gold, id, length), start = id - block->names;
    block->query = (Query){number, id, length, 0, 0, 0, 1};
    if (number < 0) {
        result->without_start[result->without] = start;
        result->without_end[result->without++] = start + (int64_t)length;
        return DONE;
    }
    uint8_t *seen = &block->seen[number / 8], bit = (uint8_t)(1 << number % 8);
    if (*seen & bit)
        return HAND_BACK; /* its rows stand apart */
    *seen |= bit;
    return DONE;
}

/* How a row follows the one above it. */
static NEVER void note_rise(Query *query, const uint8_t *text, const Rows *rows) {
    int64_t i = rows->count;
    query->rising += rows->score[i] > rows->score[i - 1];
    query->tied += rows->score[i] == rows->score[i - 1];
    if (rows->score[i] > rows->score[i - 1] ||
        greater(text + rows->start[i], rows->length[i], text + rows->start[i - 1], rows->length[i - 1]))
        query->sorted = 0;
}

/* Add a row to the query. HAND_BACK where an earlier one seems to have the same doc. */
static ALWAYS int add_row(Block *block, const uint8_t *doc, uint64_t length, double score) {
    Rows *rows = &block->rows;
    Table *table = &block->table;
    int64_t i = rows->count;
    uint64_t hash = hash_of(doc, length), mask = table->mask, at = hash & mask;
    uint32_t base = table->base, *row = table->row;
    rows->hash[i] = hash;
    rows->score[i] = score;
    rows->start[i] = (uint32_t)(doc - block->text);
    rows->length[i] = (uint32_t)length;
    if (i > 0) {
        if (score < rows->score[i - 1])
            block->query.falling = 1;
        else
            note_rise(&block->query, block->text, rows);
    }
    for (; row[at] >= base; at = (at + 1) & mask)
        if (rows->hash[row[at] - base] == hash || --table->budget < 0)
            return HAND_BACK;
    row[at] = base + (uint32_t)i;
    rows->count = i + 1;
    return (uint64_t)(i + 1) * 4 > mask ? widen(table, rows) : DONE;
}

/* Add a row to the columns. */
static ALWAYS int add_column(Block *block, const uint8_t *id, uint64_t length, const uint8_t *doc, uint64_t doc_length,
                             double score) {
    Columns *to = block->columns;
    if (length != block->query.length || !same(id, block->query.id, length)) {
        if (*id == '#' || length > (uint64_t)block->layout->longest_id)
            return HAND_BACK;
        block->query = (Query){find_query(block->gold, id, length), id, length, 0, 0, 0, 1};
    }
    int64_t query = block->query.number, i = to->count, start = doc - block->text;
    if (query < 0) {
        to->without_start[to->without] = id - block->text;
        to->without_end[to->without++] = id - block->text + (int64_t)length;
        return DONE;
    }
    to->query[i] = query;
    to->start[i] = start;
    to->end[i] = start + (int64_t)doc_length;
    to->score[i] = score;
    to->count = i + 1;
    if (to->key == NULL)
        return DONE;
    to->gold[i] = find_pair(block->gold, query, doc, doc_length);
    to->key[i] = key_of(doc, doc_length, (uint64_t)(query + 1) * block->gold->salt);
    return doc_length > LONGEST_KEY ? HAND_BACK : DONE;
}

/* Take a line that was cut. */
static ALWAYS int take(Block *block, const uint8_t *line, const Fields *fields, Parse *parse, const int64_t query_column,
                       const int64_t doc_column, const int64_t value_column, const int any_order) {
    const uint8_t *id = line + fields->start[query_column], *doc = line + fields->start[doc_column];
    uint64_t length = fields->end[query_column] - fields->start[query_column];
    uint64_t doc_length = fields->end[doc_column] - fields->start[doc_column];
    double score;
    if (parse(line + fields->start[value_column], line + fields->end[value_column], &score) ||
        doc_length > (uint64_t)block->layout->longest_id)
        return HAND_BACK;
    if (any_order)
        return add_column(block, id, length, doc, doc_length, score);
    if (block->layout->narrow)
        score = (double)(float)score;
    if ((length != block->query.length || !same(id, block->query.id, length)) &&
        (*id == '#' || length > (uint64_t)block->layout->longest_id || next_query(block, id, length)))
        return HAND_BACK;
    return block->query.number < 0 ? DONE : add_row(block, doc, doc_length, score);
}

static NEVER uint64_t take_any(Block *block, const uint8_t *line, int any_order) {
    const Layout *layout = block->layout;
    Fields fields;
    if (!cut_any(line, block->text + block->end, layout->width, &fields, &block->high) ||
        take(block, line, &fields, parse_words, layout->query, layout->doc, layout->value, any_order))
        return 0;
    return fields.size;
}

static ALWAYS int scan(Block *block, Window (*look)(const uint8_t *), Parse *parse, const int64_t width,
                       const int64_t query, const int64_t doc, const int64_t value, const int any_order) {
    const uint8_t *last = block->text + block->end, *line = block->text + block->begin;
    const uint8_t *last_window = block->text + block->size - WINDOW;
    uint64_t high = 0, size;
    Fields fields;
    for (; line < last; line += size) {
        size = 0;
        if (line <= last_window) {
            Window window = look(line);
            high |= window.high;
            if (cut_plain(window, width, &fields)) {
                size = fields.size;
                if (take(block, line, &fields, parse, query, doc, value, any_order))
                    return HAND_BACK;
            }
        }
        if (size == 0 && (size = take_any(block, line, any_order)) == 0)
            return HAND_BACK;
    }
    block->high |= high;
    return any_order ? DONE : end_query(block);
}

/* The layout of TREC runs is known to the compiler. */
#define SCAN(name, target, look, parse, any_order)                                                                     \
    target static int name(Block *block) {                                                                             \
        const Layout *layout = block->layout;                                                                          \
        if (layout->width == 6 && layout->query == 0 && layout->doc == 2 && layout->value == 4)                        \
            return scan(block, look, parse, 6, 0, 2, 4, any_order);                                                           \
        return scan(block, look, parse, layout->width, layout->query, layout->doc, layout->value, any_order);                 \
    }
#ifdef __SSE2__
SCAN(scan_sse2, , look_sse2, parse_eight, 0)
SCAN(scan_avx2, AVX2, look_avx2, parse_sixteen, 0)
SCAN(scan_any_order_sse2, , look_sse2, parse_eight, 1)
SCAN(scan_any_order_avx2, AVX2, look_avx2, parse_sixteen, 1)

static int scan_best(Block *block) {
    int best = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    if (block->columns != NULL)
        return best ? scan_any_order_avx2(block) : scan_any_order_sse2(block);
    return best ? scan_avx2(block) : scan_sse2(block);
}
#else
SCAN(scan_words, , look_words, parse_eight, 0)
SCAN(scan_any_order_words, , look_words, parse_eight, 1)

static int scan_best(Block *block) {
    return block->columns != NULL ? scan_any_order_words(block) : scan_words(block);
}
#endif

static ALWAYS int finish(Block *block, int status) {
    if (3 * block->rising < block->judged) /* lists of two that rise have a step for two rows */
        block->result->ascending = 0;
    block->result->high = block->high != 0;
    free_room(block);
    return status;
}

/* Align the rows in text[begin:end], whose last byte is a newline; size bytes of the text may be read. */
EXPORT int align_block(const uint8_t *text, int64_t size, int64_t begin, int64_t end, const Layout *layout,
                       const Gold *gold, Result *result) {
    Block block = {.text = text, .names = text, .size = size, .begin = begin, .end = end};
    block.layout = layout, block.gold = gold, block.result = result;
    block.query = (Query){-1, text, 0, 0, 0, 0, 1};
    if (layout->width > MOST_COLUMNS || end - begin > UINT32_MAX / 2 || begin < PAD || size - end < PAD)
        return HAND_BACK;
    int status = make_room(&block, (size_t)((end - begin) / (2 * layout->width) + 1)); /* 2 bytes for a field */
    return finish(&block, status == DONE ? scan_best(&block) : status);
}

/* The rows in text[begin:end], of queries in any order, as columns; `high` as in a result. */
EXPORT int read_block(const uint8_t *text, int64_t size, int64_t begin, int64_t end, const Layout *layout,
                      const Gold *gold, Columns *columns, int64_t *high) {
    Block block = {.text = text, .names = text, .size = size, .begin = begin, .end = end};
    block.layout = layout, block.gold = gold, block.columns = columns;
    block.query = (Query){-1, text, 0, 0, 0, 0, 1};
    if (layout->width > MOST_COLUMNS || begin < PAD || size - end < PAD || gold->pairs == NULL)
        return HAND_BACK;
    int status = scan_best(&block);
    *high = block.high != 0;
    return status;
}

/* Keys by their first bits: those that another one came before set a bit of `twice`. Both have 2^bits bits. */
EXPORT void mark_keys(const uint64_t *keys, int64_t count, int64_t bits, uint8_t *once, uint8_t *twice) {
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = keys[i] >> (64 - bits);
        uint8_t bit = (uint8_t)(1 << (at & 7));
        twice[at >> 3] |= once[at >> 3] & bit;
        once[at >> 3] |= bit;
    }
}

/* Copy the keys that may occur again; how many they are. */
EXPORT int64_t pick_keys(const uint64_t *keys, int64_t count, int64_t bits, const uint8_t *twice, uint64_t *picked) {
    int64_t size = 0;
    for (int64_t i = 0; i < count; i++) {
        uint64_t at = keys[i] >> (64 - bits);
        picked[size] = keys[i];
        size += twice[at >> 3] >> (at & 7) & 1;
    }
    return size;
}

typedef struct { /* judged rows by query and rising score, and what is counted: docs above each, docs of each query */
    const int64_t *offsets; /* the rows of query q are offsets[q] to offsets[q + 1] */
    const double *score;
    Ids docs;
    int64_t *slots, *tied; /* docs by how many judged rows are lower (slot q + rows), docs with the same score above */
    int64_t *returned;
    double *lowest, *highest;
} Counts;

/* Count rows, of queries that are numbered, by their scores. */
EXPORT void count_rows(int64_t count, const int64_t *queries, const double *scores, const Ids *docs, Counts *counts) {
    for (int64_t i = 0; i < count; i++) {
        int64_t q = queries[i], at = counts->offsets[q], end = counts->offsets[q + 1];
        double score = scores[i];
        for (int64_t rest = end - at; rest > 0;) { /* no branch depends on the scores */
            int64_t half = (rest + 1) / 2;
            at += counts->score[at + half - 1] < score ? half : 0;
            rest -= half;
        }
        counts->slots[at + q]++;
        counts->returned[q]++;
        counts->lowest[q] = score < counts->lowest[q] ? score : counts->lowest[q];
        counts->highest[q] = score > counts->highest[q] ? score : counts->highest[q];
        for (; at < end && counts->score[at] == score; at++)
            counts->tied[at] += greater(docs->text + docs->start[i], (uint64_t)(docs->end[i] - docs->start[i]),
                                        counts->docs.text + counts->docs.start[at],
                                        (uint64_t)(counts->docs.end[at] - counts->docs.start[at]));
    }
}

/* Take a row whose ids are known not to be empty. */
static ALWAYS int take_row(Block *block, const uint8_t *id, uint64_t length, const uint8_t *doc, uint64_t doc_length,
                           double score) {
    if ((length != block->query.length || !same(id, block->query.id, length)) && next_query(block, id, length))
        return HAND_BACK;
    if (block->query.number < 0)
        return DONE;
    return add_row(block, doc, doc_length, block->layout->narrow ? (double)(float)score : score);
}

static int take_rows(Block *block, const Ids *queries, const Ids *docs, const double *scores) {
    for (int64_t i = 0; i < docs->count; i++) {
        int64_t length = queries->end[i] - queries->start[i], doc_length = docs->end[i] - docs->start[i];
        if (length <= 0 || doc_length <= 0 || docs->end[i] > UINT32_MAX)
            return HAND_BACK;
        if (take_row(block, queries->text + queries->start[i], (uint64_t)length, docs->text + docs->start[i],
                     (uint64_t)doc_length, scores[i]))
            return HAND_BACK;
    }
    return end_query(block);
}

/* Align rows that are columns already: ids without their hashes, and finite scores. */
EXPORT int align_rows(const Ids *queries, const Ids *docs, const double *scores, const Layout *layout,
                      const Gold *gold, Result *result) {
    Block block = {.text = docs->text, .names = queries->text, .layout = layout, .gold = gold, .result = result};
    block.query = (Query){-1, queries->text, 0, 0, 0, 0, 1};
    int status = make_room(&block, (size_t)docs->count + 1);
    return finish(&block, status == DONE ? take_rows(&block, queries, docs, scores) : status);
}

/* Arrow: columns as other libraries hold them, by its C data interface. Their texts are copied, since nothing is known
   of the bytes around them. */

typedef struct ArrowArray {
    int64_t length, null_count, offset, buffer_count, child_count;
    const void *const *buffers;
    struct ArrowArray **children, *dictionary;
    void (*release)(struct ArrowArray *);
    void *private_data;
} ArrowArray;

typedef struct { /* some rows of a batch; a kind is the first letter of Arrow's name for a type */
    const ArrowArray *query, *doc, *value;
    int64_t query_kind, doc_kind, value_kind;
    int64_t start, end;
} Slice;

enum { TEXTS = 'u', LARGE_TEXTS = 'U', VIEWS = 'v', DOUBLES = 'g', FLOATS = 'f', INSIDE = 12 };

typedef struct { /* the texts of some slices, one after the other: text i ends where text i + 1 starts */
    uint8_t *text;
    uint32_t *start;
    size_t size, room;
    int64_t count;
} Texts;

static int has_nulls(const ArrowArray *column) {
    return column->null_count != 0 && column->buffers[0] != NULL;
}

static int reserve(Texts *texts, uint64_t more) { /* bytes, and those that are copied in vain after them */
    uint64_t needed = texts->size + more + 2 * PAD;
    if (needed > UINT32_MAX / 2)
        return HAND_BACK;
    if (needed > texts->room) {
        uint8_t *text = realloc(texts->text, 2 * needed);
        if (text == NULL)
            return HAND_BACK;
        texts->text = text;
        texts->room = 2 * needed;
    }
    return DONE;
}

static ALWAYS int copy_texts(Texts *texts, const uint8_t *data, const void *places, int wide, int64_t start,
                             int64_t end) {
    const int32_t *narrow = (const int32_t *)places + start;
    const int64_t *large = (const int64_t *)places + start;
    int64_t low = wide ? large[0] : narrow[0], high = wide ? large[end - start] : narrow[end - start];
    if (high <= low || reserve(texts, (uint64_t)(high - low)))
        return HAND_BACK;
    uint32_t *to = texts->start + texts->count;
    for (int64_t i = 0; i < end - start; i++)
        to[i] = (uint32_t)((wide ? large[i] : narrow[i]) - low + (int64_t)texts->size);
    memcpy(texts->text + texts->size, data + low, (size_t)(high - low));
    texts->size += (size_t)(high - low);
    return DONE;
}

static int copy_views(Texts *texts, const ArrowArray *column, int64_t start, int64_t end) {
    const uint8_t *view = (const uint8_t *)column->buffers[1] + 16 * start;
    for (int64_t i = 0; i < end - start; i++, view += 16) {
        int32_t part[4]; /* the length, then the text; or its first bytes, its buffer and its place there */
        memcpy(part, view, 16);
        uint64_t length = (uint64_t)part[0];
        if (part[0] <= 0 || reserve(texts, length))
            return HAND_BACK;
        texts->start[texts->count + i] = (uint32_t)texts->size;
        if (length <= INSIDE)
            memcpy(texts->text + texts->size, view + 4, INSIDE);
        else if (part[2] < 0 || part[2] + 3 >= column->buffer_count)
            return HAND_BACK;
        else
            memcpy(texts->text + texts->size, (const uint8_t *)column->buffers[2 + part[2]] + part[3], length);
        texts->size += length;
    }
    return DONE;
}

static int copy_column(Texts *texts, const ArrowArray *column, int64_t kind, int64_t start, int64_t end) {
    int status = HAND_BACK;
    start += column->offset, end += column->offset;
    if (has_nulls(column) || (kind != TEXTS && kind != LARGE_TEXTS && kind != VIEWS))
        return HAND_BACK;
    if (kind == VIEWS)
        status = copy_views(texts, column, start, end);
    else if (kind == LARGE_TEXTS)
        status = copy_texts(texts, column->buffers[2], column->buffers[1], 1, start, end);
    else
        status = copy_texts(texts, column->buffers[2], column->buffers[1], 0, start, end);
    texts->count += end - start;
    return status;
}

static int copy_slices(const Slice *slices, int64_t count, int64_t rows, Texts *queries, Texts *docs) {
    Texts *both[] = {queries, docs};
    for (int i = 0; i < 2; i++) {
        Texts *texts = both[i];
        texts->start = malloc(((size_t)rows + 1) * sizeof *texts->start);
        if (texts->start == NULL || reserve(texts, PAD))
            return HAND_BACK;
        memset(texts->text, ' ', PAD);
        texts->size = PAD;
        for (const Slice *slice = slices; slice < slices + count; slice++)
            if (copy_column(texts, i ? slice->doc : slice->query, i ? slice->doc_kind : slice->query_kind,
                            slice->start, slice->end))
                return HAND_BACK;
        texts->start[texts->count] = (uint32_t)texts->size;
        if (memchr(texts->text, 0, texts->size) != NULL)
            return HAND_BACK;
        memset(texts->text + texts->size, 0, PAD);
    }
    return DONE;
}

static ALWAYS int take_slice(Block *block, const Slice *slice, const Texts *queries, const Texts *docs, int64_t first,
                             const int wide) {
    const double *doubles = (const double *)slice->value->buffers[1] + slice->value->offset + slice->start;
    const float *floats = (const float *)slice->value->buffers[1] + slice->value->offset + slice->start;
    const uint32_t *query = queries->start + first, *doc = docs->start + first;
    uint64_t longest = (uint64_t)block->layout->longest_id;
    for (int64_t i = 0; i < slice->end - slice->start; i++) {
        uint64_t length = query[i + 1] - query[i], doc_length = docs->start[first + i + 1] - doc[i];
        double score = wide ? doubles[i] : (double)floats[i];
        if (length - 1 >= longest || doc_length - 1 >= longest || !__builtin_isfinite(score) ||
            take_row(block, queries->text + query[i], length, docs->text + doc[i], doc_length, score))
            return HAND_BACK;
    }
    return DONE;
}

static int take_slices(Block *block, const Slice *slices, int64_t count, const Texts *queries, const Texts *docs) {
    int64_t first = 0;
    for (const Slice *slice = slices; slice < slices + count; first += slice->end - slice->start, slice++) {
        int wide = slice->value_kind == DOUBLES;
        if (has_nulls(slice->value) || (!wide && slice->value_kind != FLOATS))
            return HAND_BACK;
        if (wide ? take_slice(block, slice, queries, docs, first, 1) : take_slice(block, slice, queries, docs, first, 0))
            return HAND_BACK;
    }
    return end_query(block);
}

/* Align slices of Arrow batches, which hold whole queries, a row at least in each. Queries without gold are told by
   their rows, counted over all slices: without_start to without_end - 1. `marked` becomes 1 where a doc holds the mark. */
EXPORT int align_arrow(const Slice *slices, int64_t count, int64_t mark, const Layout *layout, const Gold *gold,
                       Result *result, int64_t *marked) {
    Texts queries = {0}, docs = {0};
    int64_t rows = 0;
    for (int64_t i = 0; i < count; i++)
        rows += slices[i].end - slices[i].start;
    Block block = {.layout = layout, .gold = gold, .result = result};
    int status = copy_slices(slices, count, rows, &queries, &docs);
    if (status == DONE && (status = make_room(&block, (size_t)rows + 1)) == DONE) {
        block.text = docs.text, block.names = queries.text;
        block.query = (Query){-1, queries.text, 0, 0, 0, 0, 1};
        status = take_slices(&block, slices, count, &queries, &docs);
        *marked = mark >= 0 && memchr(docs.text + PAD, (int)mark, docs.size - PAD) != NULL;
    }
    for (int64_t i = 0, row = 0; status == DONE && i < result->without; i++) { /* places of texts → numbers of rows */
        while (queries.start[row] != result->without_start[i])
            row++;
        result->without_start[i] = row, result->without_end[i] = row + 1;
    }
    status = finish(&block, status);
    free(queries.text);
    free(queries.start);
    free(docs.text);
    free(docs.start);
    return status;
}
