import { setFlagsFromString } from 'node:v8'

// Left alone, V8 lets the old part of the heap grow to a multiple before it collects it: a poll of a million records then took
// 430 MB where 280 do, and kept everything else waiting for up to 165 ms in place of 63, at no better pace (`bench -- polls`).
// Before everything else, and here rather than among Node's options, since a version of V8 that does not know it goes on without.
setFlagsFromString('--heap-growing-percent=100')
