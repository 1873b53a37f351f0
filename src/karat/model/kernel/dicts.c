/* Dicts of dicts: check ids, read gold, and align scores, where the rank of a judged doc is 1 + the docs with a higher
score + the tied ones with a greater id.

A module of Python, by its stable ABI: one build serves every version from 3.11 on. What is not plain (mappings that are
no dicts, ids that are no strings, scores that are neither float nor int or not finite) makes a function return None: the
code in Python then does the work, and says what is wrong. No code of Python's runs while a dict is walked through. */

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { DONE = 0, HAND_BACK = 1, FAILED = 2 };
enum { FEW = 8 };        /* for more judged docs of a query than these, the scores are put in order */
enum { MOST_TIES = 64 }; /* with more of them tied, sorting docs is cheaper */

typedef struct { /* the scores of one query */
    double *score;   /* in the order of the dict */
    double *ordered; /* falling, where that is needed */
    double *own;     /* of the judged docs */
    Py_ssize_t count, room;
    int falls, level; /* whether no score is higher than the one before it; whether all are equal */
} Scores;

static int read_score(PyObject *value, int narrow, double *score) {
    if (PyFloat_Check(value))
        *score = PyFloat_AsDouble(value);
    else if (PyLong_CheckExact(value)) {
        *score = PyLong_AsDouble(value);
        if (*score == -1.0 && PyErr_Occurred()) {
            PyErr_Clear();
            return HAND_BACK; /* an integer beyond every float */
        }
    } else
        return HAND_BACK;
    if (!isfinite(*score))
        return HAND_BACK;
    if (narrow)
        *score = (double)(float)*score;
    return DONE;
}

static int make_room(Scores *scores, Py_ssize_t count) {
    if (count <= scores->room)
        return DONE;
    free(scores->score);
    free(scores->ordered);
    scores->room = 0;
    scores->score = malloc((size_t)count * sizeof(double));
    scores->ordered = malloc((size_t)count * sizeof(double));
    if (scores->score == NULL || scores->ordered == NULL) {
        PyErr_NoMemory();
        return FAILED;
    }
    scores->room = count;
    return DONE;
}

static int read_scores(PyObject *docs, int narrow, Scores *scores) {
    Py_ssize_t place = 0, count = 0;
    PyObject *doc, *value;
    double last = INFINITY, *score;
    int falls = 1, status = make_room(scores, PyDict_Size(docs));
    if (status)
        return status;
    for (score = scores->score; count < scores->room && PyDict_Next(docs, &place, &doc, &value); count++) {
        if (read_score(value, narrow, &score[count]))
            return HAND_BACK;
        falls &= score[count] <= last;
        last = score[count];
    }
    scores->count = count;
    scores->falls = falls;
    scores->level = count > 1 && falls && score[0] == score[count - 1];
    return DONE;
}

static int higher_first(const void *a, const void *b) {
    double left = *(const double *)a, right = *(const double *)b;
    return (left < right) - (left > right);
}

static void put_in_order(Scores *scores) {
    memcpy(scores->ordered, scores->score, (size_t)scores->count * sizeof(double));
    if (!scores->falls)
        qsort(scores->ordered, (size_t)scores->count, sizeof(double), higher_first);
}

/* How many scores are higher, and how many are as high. */
static void count_higher(const Scores *scores, int ordered, double own, Py_ssize_t *higher, Py_ssize_t *tied) {
    Py_ssize_t above = 0, same = 0;
    if (!ordered) {
        for (Py_ssize_t i = 0; i < scores->count; i++) {
            above += scores->score[i] > own;
            same += scores->score[i] == own;
        }
    } else {
        for (Py_ssize_t rest = scores->count; rest > 0;) { /* no branch depends on the scores */
            Py_ssize_t half = (rest + 1) / 2;
            above += scores->ordered[above + half - 1] > own ? half : 0;
            rest -= half;
        }
        while (above + same < scores->count && scores->ordered[above + same] == own)
            same++;
    }
    *higher = above;
    *tied = same;
}

/* How many docs with this score have a greater id. Code points are in the order of UTF-8 bytes. */
static int count_greater(PyObject *docs, const Scores *scores, PyObject *own, double score, Py_ssize_t *count) {
    Py_ssize_t place = 0, i = 0;
    PyObject *doc, *value;
    for (*count = 0; i < scores->count && PyDict_Next(docs, &place, &doc, &value); i++) {
        if (scores->score[i] == score) {
            if (!PyUnicode_CheckExact(doc))
                return HAND_BACK;
            int order = PyUnicode_Compare(doc, own);
            if (order == -1 && PyErr_Occurred())
                return FAILED;
            *count += order > 0;
        }
    }
    return DONE;
}

/* Put judged docs of a query in the order of their ranks, of which no two are equal. */
static void sort_by_rank(Scores *scores, Py_ssize_t count, int64_t *gold, int64_t *rank) {
    if (count <= FEW) {
        for (Py_ssize_t i = 1; i < count; i++) {
            int64_t g = gold[i], r = rank[i];
            Py_ssize_t place = i;
            for (; place > 0 && rank[place - 1] > r; place--) {
                rank[place] = rank[place - 1];
                gold[place] = gold[place - 1];
            }
            rank[place] = r;
            gold[place] = g;
        }
        return;
    }
    int64_t *at = (int64_t *)scores->ordered; /* 1 + the judged doc at each rank; the scores have served */
    memset(at, 0, (size_t)scores->count * sizeof(int64_t));
    for (Py_ssize_t i = 0; i < count; i++)
        at[rank[i] - 1] = gold[i] + 1;
    for (Py_ssize_t place = 0, i = 0; place < scores->count && i < count; place++) {
        gold[i] = at[place] - 1;
        rank[i] = place + 1;
        i += at[place] != 0;
    }
}

typedef struct {
    Py_buffer offsets, returned, gold, rank; /* 64-bit integers */
} Arrays;

/* The judged docs of query q among its docs. */
static int align_query(PyObject *docs, PyObject *judged, int64_t q, int narrow, Scores *scores, Arrays *arrays,
                       Py_ssize_t *hits) {
    const int64_t *offsets = arrays->offsets.buf;
    int64_t *gold = (int64_t *)arrays->gold.buf + *hits, *rank = (int64_t *)arrays->rank.buf + *hits;
    Py_ssize_t count = 0, ties = 0;
    int status = read_scores(docs, narrow, scores);
    for (int64_t g = offsets[q]; status == DONE && g < offsets[q + 1]; g++) {
        PyObject *value = PyDict_GetItemWithError(docs, PyList_GetItem(judged, g));
        if (value != NULL) {
            status = read_score(value, narrow, &scores->own[count]);
            gold[count++] = g;
        } else if (PyErr_Occurred())
            status = FAILED;
    }
    int ordered = count > FEW;
    if (ordered)
        put_in_order(scores);
    for (Py_ssize_t i = 0; status == DONE && i < count; i++) {
        Py_ssize_t higher, tied, greater = 0;
        count_higher(scores, ordered, scores->own[i], &higher, &tied);
        if (tied > 1 && ++ties > MOST_TIES)
            status = HAND_BACK;
        else if (tied > 1)
            status = count_greater(docs, scores, PyList_GetItem(judged, gold[i]), scores->own[i], &greater);
        rank[i] = 1 + higher + greater;
    }
    if (status == DONE)
        sort_by_rank(scores, count, gold, rank);
    *hits += count;
    return status;
}

static int align_lists(PyObject *lists, PyObject *queries, PyObject *judged, int narrow, Arrays *arrays,
                       Py_ssize_t *hits, Py_ssize_t *level) {
    Scores scores = {.own = malloc((size_t)arrays->gold.len + 1)};
    int64_t *returned = arrays->returned.buf;
    int status = scores.own != NULL ? DONE : HAND_BACK;
    for (Py_ssize_t q = 0; q < PyList_Size(queries) && status == DONE; q++) {
        PyObject *docs = PyDict_GetItemWithError(lists, PyList_GetItem(queries, q));
        if (docs == NULL) {
            returned[q] = -1;
            status = PyErr_Occurred() ? FAILED : DONE;
        } else if (!PyDict_CheckExact(docs))
            status = HAND_BACK;
        else {
            returned[q] = PyDict_Size(docs);
            Py_INCREF(docs);
            status = align_query(docs, judged, q, narrow, &scores, arrays, hits);
            Py_DECREF(docs);
            *level += scores.level;
        }
    }
    free(scores.score);
    free(scores.ordered);
    free(scores.own);
    return status;
}

static int is_room(const Py_buffer *buffer, Py_ssize_t count) {
    return buffer->len == count * (Py_ssize_t)sizeof(int64_t);
}

/* align(lists, query ids, judged docs, offsets, narrow, returned, gold, rank) → (hits, level) or None */
static PyObject *align(PyObject *module, PyObject *arguments) {
    PyObject *lists, *queries, *judged, *result = NULL;
    Arrays arrays;
    Py_ssize_t hits = 0, level = 0;
    int narrow;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "OOOy*pw*w*w*", &lists, &queries, &judged, &arrays.offsets, &narrow,
                          &arrays.returned, &arrays.gold, &arrays.rank))
        return NULL;
    int status = HAND_BACK;
    if (PyDict_CheckExact(lists) && PyList_CheckExact(queries) && PyList_CheckExact(judged)) {
        Py_ssize_t count = PyList_Size(queries), docs = PyList_Size(judged);
        if (is_room(&arrays.offsets, count + 1) && is_room(&arrays.returned, count) && is_room(&arrays.gold, docs) &&
            is_room(&arrays.rank, docs))
            status = align_lists(lists, queries, judged, narrow, &arrays, &hits, &level);
    }
    PyBuffer_Release(&arrays.offsets);
    PyBuffer_Release(&arrays.returned);
    PyBuffer_Release(&arrays.gold);
    PyBuffer_Release(&arrays.rank);
    if (status == DONE)
        result = Py_BuildValue("nn", hits, level);
    else if (status == HAND_BACK)
        result = Py_NewRef(Py_None);
    return result;
}

/* Ids. */

static int has_byte(uint64_t word, char byte) {
    word ^= UINT64_C(0x0101010101010101) * (unsigned char)byte;
    return ((word - UINT64_C(0x0101010101010101)) & ~word & UINT64_C(0x8080808080808080)) != 0;
}

/* Whether this is text that is not empty and holds no NUL; `marked` becomes 1 where it holds the mark. */
static int is_id(PyObject *id, char mark, int *marked) {
    Py_ssize_t length;
    if (!PyUnicode_CheckExact(id))
        return 0;
    const char *text = PyUnicode_AsUTF8AndSize(id, &length);
    if (text == NULL) {
        PyErr_Clear(); /* half a character */
        return 0;
    }
    if (length == 0)
        return 0;
    int nul = 0;
    uint64_t word = 0;
    for (; length >= 8; text += 8, length -= 8) {
        memcpy(&word, text, 8);
        nul |= has_byte(word, 0);
        *marked |= has_byte(word, mark);
    }
    if (length >= 4) { /* two halves that overlap */
        uint32_t first, last;
        memcpy(&first, text, 4);
        memcpy(&last, text + length - 4, 4);
        word = (uint64_t)first << 32 | last;
        nul |= has_byte(word, 0);
        *marked |= has_byte(word, mark);
        length = 0;
    }
    for (; length > 0; length--) {
        nul |= text[length - 1] == 0;
        *marked |= text[length - 1] == mark;
    }
    return !nul;
}

static int is_text_at_end(PyObject *docs) { /* whether the last id is text; -1 is an error */
    PyObject *iterator = PyObject_CallMethod(docs, "__reversed__", NULL);
    PyObject *last = iterator != NULL ? PyIter_Next(iterator) : NULL;
    int text = last != NULL ? PyUnicode_CheckExact(last) : -1;
    Py_XDECREF(last);
    Py_XDECREF(iterator);
    return text;
}

/* The ids of one list, and whether one holds the mark; of a `long` run only the first and the last id. */
static int check_list(PyObject *docs, char mark, int is_long, int *marked) {
    PyObject *doc, *score;
    Py_ssize_t place = 0, number = 0;
    for (; PyDict_Next(docs, &place, &doc, &score); number++) {
        if (number == 0 && (PyUnicode_CheckExact(score) || PyBool_Check(score)))
            return HAND_BACK;
        if (is_long) {
            int text = PyUnicode_CheckExact(doc) ? is_text_at_end(docs) : 0;
            *marked = 1; /* nobody looked */
            return text == 1 ? DONE : text == 0 ? HAND_BACK : FAILED;
        }
        if (!is_id(doc, mark, marked))
            return HAND_BACK;
    }
    return DONE;
}

/* check_ids(lists, mark, most) → whether an id may hold the mark; None if something is wrong or not plain.
   All ids of lists are looked at until there were `most` docs. */
static PyObject *check_ids(PyObject *module, PyObject *arguments) {
    PyObject *lists, *query, *docs;
    Py_ssize_t most, place = 0;
    const char *mark;
    int marked = 0, status = DONE;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "Osn", &lists, &mark, &most))
        return NULL;
    if (!PyDict_CheckExact(lists) || strlen(mark) != 1)
        return Py_NewRef(Py_None);
    while (status == DONE && PyDict_Next(lists, &place, &query, &docs)) {
        int plain = PyUnicode_CheckExact(query) && PyUnicode_GetLength(query) > 0 && PyDict_CheckExact(docs);
        status = plain ? check_list(docs, mark[0], most <= 0, &marked) : HAND_BACK;
        most -= plain ? PyDict_Size(docs) : 0;
    }
    if (status == FAILED)
        return NULL;
    return status == DONE ? PyBool_FromLong(marked) : Py_NewRef(Py_None);
}

/* Gold. */

typedef struct {
    PyObject *docs; /* a list with room for all */
    int64_t *offsets;
    double *grades;
    Py_ssize_t count;
} Gold;

static int read_queries(PyObject *data, PyObject *queries, Gold *gold) {
    int marked = 0;
    for (Py_ssize_t q = 0; q < PyList_Size(queries); q++) {
        PyObject *judged = PyDict_GetItemWithError(data, PyList_GetItem(queries, q)), *doc, *grade;
        Py_ssize_t place = 0;
        if (judged == NULL)
            return FAILED;
        while (PyDict_Next(judged, &place, &doc, &grade)) {
            if (!is_id(doc, 0, &marked) || read_score(grade, 0, &gold->grades[gold->count]))
                return HAND_BACK;
            if (PyList_SetItem(gold->docs, gold->count++, Py_NewRef(doc)))
                return FAILED;
        }
        gold->offsets[q + 1] = gold->count;
    }
    return DONE;
}

/* read_gold(data) → (query ids in order, docs, offsets, grades), the last two as bytearrays; None if it is not plain. */
static PyObject *read_gold(PyObject *module, PyObject *data) {
    PyObject *query, *judged, *result = NULL;
    Py_ssize_t place = 0, total = 0;
    int marked = 0, status = FAILED;
    (void)module;
    if (!PyDict_CheckExact(data))
        return Py_NewRef(Py_None);
    while (PyDict_Next(data, &place, &query, &judged)) {
        if (!is_id(query, 0, &marked) || !PyDict_CheckExact(judged))
            return Py_NewRef(Py_None);
        total += PyDict_Size(judged);
    }
    Py_ssize_t offsets_size = (PyDict_Size(data) + 1) * (Py_ssize_t)sizeof(int64_t);
    Py_ssize_t grades_size = total * (Py_ssize_t)sizeof(double);
    PyObject *queries = PyDict_Keys(data);
    PyObject *offsets = PyByteArray_FromStringAndSize(NULL, offsets_size);
    PyObject *grades = PyByteArray_FromStringAndSize(NULL, grades_size);
    Gold gold = {PyList_New(total), NULL, NULL, 0};
    if (queries != NULL && offsets != NULL && grades != NULL && gold.docs != NULL && PyList_Sort(queries) == 0) {
        gold.offsets = (int64_t *)PyByteArray_AsString(offsets);
        gold.grades = (double *)PyByteArray_AsString(grades);
        gold.offsets[0] = 0;
        status = read_queries(data, queries, &gold);
    }
    if (status == DONE)
        result = Py_BuildValue("OOOO", queries, gold.docs, offsets, grades);
    else if (status == HAND_BACK)
        result = Py_NewRef(Py_None);
    Py_XDECREF(queries);
    Py_XDECREF(offsets);
    Py_XDECREF(grades);
    Py_XDECREF(gold.docs);
    return result;
}

static PyMethodDef methods[] = {{"align", align, METH_VARARGS, "Align scored lists with their gold."},
                                {"check_ids", check_ids, METH_VARARGS, "Check the ids of scored lists."},
                                {"read_gold", read_gold, METH_O, "Gold from a dict of dicts."},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "dicts", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_dicts(void) {
    return PyModule_Create(&definition);
}
